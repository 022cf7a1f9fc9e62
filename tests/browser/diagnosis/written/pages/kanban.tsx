// Columns of cards; a long title is shortened with an ellipsis, a description with a line clamp.
import Avatar from '@components/Avatar.tsx'

const columns = [
  { title: 'To do', cards: [{ t: 'Write the migration guide for everybody who comes from version two', d: 'What changed, what breaks, how to find out beforehand, and whom to ask when nothing of this helps. Keep it short.', who: 'Ana Prado' }, { t: 'Fix the calendar', d: 'Weeks begin on Sunday.', who: 'Jun Sato' }] },
  { title: 'Doing', cards: [{ t: 'Search', d: 'Results in less than 100 ms.', who: 'Ike Obi' }] },
  { title: 'Review', cards: [{ t: 'Dark mode', d: 'All but the charts.', who: 'Lea Brandt' }, { t: 'Export', d: 'As CSV and PDF.', who: 'Sam Hill' }] },
  { title: 'Done', cards: [{ t: 'Login', d: 'With passkeys.', who: 'Noor Aziz' }] },
]

export default function Kanban() {
  return (
    <main className="flex h-[720px] w-[1280px] flex-col bg-slate-200 p-8">
      <h1 className="text-2xl font-bold text-slate-800">Sprint 42</h1>
      <div className="mt-6 grid min-h-0 flex-1 grid-cols-4 gap-5">
        {columns.map((column) => (
          <section key={column.title} className="rounded-2xl bg-slate-100 p-4">
            <header className="mb-4 flex items-center justify-between text-sm font-semibold text-slate-600">
              {column.title}
              <span className="rounded-full bg-slate-300 px-2 text-xs leading-5">{column.cards.length}</span>
            </header>
            <ul className="space-y-3">
              {column.cards.map((card) => (
                <li key={card.t} className="rounded-xl bg-white p-4 shadow-sm">
                  <p className="truncate font-medium text-slate-900">{card.t}</p>
                  <p className="mt-1 line-clamp-2 text-sm text-slate-500">{card.d}</p>
                  <div className="mt-3 flex justify-end"><Avatar name={card.who} /></div>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </main>
  )
}
