// Ranks with medals as emoji, bars for points, a row that stands out, a name that is too long and gets an ellipsis.
import Avatar from '@components/Avatar.tsx'

const players = [
  { name: 'Wilhelmina Featherstonehaugh-Cholmondeley of Lower Wobbling', points: 982 },
  { name: 'Jun Sato', points: 941 },
  { name: 'Ana Prado', points: 873 },
  { name: 'You there', points: 702 },
  { name: 'Wim de Boer', points: 655 },
]

export default function Leaderboard() {
  return (
    <main className="flex h-[720px] w-[1280px] justify-center bg-[#101322] py-14 text-white">
      <div className="w-[760px]">
        <h1 className="text-center text-4xl font-bold">Season final</h1>
        <ol className="mt-10 space-y-4">
          {players.map((player, i) => (
            <li key={player.name} className={`flex items-center gap-5 rounded-2xl px-6 py-4 ${i === 3 ? 'bg-amber-400 text-slate-900' : 'bg-white/10'}`}>
              <span className="w-8 text-center text-2xl">{['🥇', '🥈', '🥉'][i] ?? i + 1}</span>
              <Avatar name={player.name} />
              <div className="min-w-0 flex-1">
                <p className="truncate font-medium">{player.name}</p>
                <div className={`mt-2 h-2 rounded-full ${i === 3 ? 'bg-slate-900/20' : 'bg-white/10'}`}><div className={`h-full rounded-full ${i === 3 ? 'bg-slate-900' : 'bg-indigo-400'}`} style={{ width: `${player.points / 10}%` }} /></div>
              </div>
              <span className="text-xl font-bold tabular-nums">{player.points}</span>
            </li>
          ))}
        </ol>
      </div>
    </main>
  )
}
