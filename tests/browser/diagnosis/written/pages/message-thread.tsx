// Messages left and right, a typing bubble with dots that move, a box to write in, unread marks.
import Avatar from '@components/Avatar.tsx'

const messages = [
  { from: 'Ana Prado', text: 'Is the bridge closed on Saturday?', mine: false },
  { from: 'me', text: 'Only until noon. They change two of the cables.', mine: true },
  { from: 'Ana Prado', text: 'Good. Then we take the long way round and are there at one. Could you tell Jun? His telephone is still in the canal 🙃', mine: false },
  { from: 'me', text: 'Done.', mine: true },
]

export default function Thread() {
  return (
    <main className="flex h-[720px] w-[1280px] bg-gray-100">
      <aside className="w-80 border-r border-gray-200 bg-white">
        {['Ana Prado', 'Jun Sato', 'Ike Obi'].map((name, i) => (
          <div key={name} className={`flex items-center gap-3 px-5 py-4 ${i === 0 ? 'bg-indigo-50' : ''}`}>
            <div className="relative"><Avatar name={name} />{i === 1 && <span className="absolute -top-1 -right-1 grid size-5 place-items-center rounded-full bg-red-600 text-[10px] font-bold text-white">2</span>}</div>
            <div className="min-w-0"><p className="text-sm font-medium text-gray-900">{name}</p><p className="truncate text-xs text-gray-500">{['Could you tell Jun?', 'Sent a picture', 'See you on Monday then, and bring the drawings'][i]}</p></div>
          </div>
        ))}
      </aside>
      <section className="flex flex-1 flex-col">
        <div className="flex flex-1 flex-col justify-end gap-3 p-8">
          {messages.map((m, i) => <div key={i} className={`max-w-md rounded-2xl px-4 py-2.5 ${m.mine ? 'self-end rounded-br-sm bg-indigo-600 text-white' : 'self-start rounded-bl-sm bg-white text-gray-900'}`}>{m.text}</div>)}
          <div className="flex gap-1 self-start rounded-2xl bg-white px-4 py-3.5">{[0, 1, 2].map((n) => <span key={n} className="size-2 animate-bounce rounded-full bg-gray-400" style={{ animationDelay: `${n * 150}ms` }} />)}</div>
        </div>
        <form className="flex gap-3 border-t border-gray-200 bg-white p-5"><input className="flex-1 rounded-full bg-gray-100 px-5 py-3" placeholder="Write a message …" /><button type="button" className="rounded-full bg-indigo-600 px-6 font-medium text-white">Send</button></form>
      </section>
    </main>
  )
}
