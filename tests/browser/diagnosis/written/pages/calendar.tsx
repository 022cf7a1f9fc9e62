// A month as a grid: events in the cells, "+2 more", days of other months in grey.
const EVENTS: Record<number, { text: string; colour: string }[]> = {
  5: [{ text: 'Kick-off', colour: 'bg-blue-100 text-blue-800' }],
  13: [{ text: 'Board', colour: 'bg-rose-100 text-rose-800' }, { text: 'Dentist', colour: 'bg-emerald-100 text-emerald-800' }],
  22: [{ text: 'Release 3.1', colour: 'bg-violet-100 text-violet-800' }],
}

export default function Calendar() {
  const days = Array.from({ length: 35 }, (_, i) => i - 2)
  return (
    <main className="flex h-[720px] w-[1280px] flex-col bg-white p-8">
      <div className="mb-4 flex items-center justify-between">
        <h1 className="text-2xl font-semibold text-gray-900">January 2026</h1>
        <div className="flex gap-1 text-gray-600"><button className="rounded-lg border px-3 py-1">‹</button><button className="rounded-lg border px-3 py-1">Today</button><button className="rounded-lg border px-3 py-1">›</button></div>
      </div>
      <div className="grid grid-cols-7 border-b text-xs font-medium text-gray-500 uppercase">{['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'].map((d) => <div key={d} className="px-3 py-2">{d}</div>)}</div>
      <div className="grid flex-1 grid-cols-7 grid-rows-5 border-l">
        {days.map((day) => {
          const inside = day >= 1 && day <= 31
          const date = new Date(2026, 0, day).getDate()
          return (
            <div key={day} className={`relative border-r border-b p-2 ${inside ? '' : 'bg-gray-50'}`}>
              <span className={day === 1 ? 'inline-grid size-7 place-items-center rounded-full bg-blue-600 text-sm text-white' : inside ? 'text-sm text-gray-800' : 'text-sm text-gray-400'}>{date}</span>
              {(EVENTS[day] ?? []).map((event) => <p key={event.text} className={`mt-1 truncate rounded px-1.5 text-xs leading-5 ${event.colour}`}>{event.text}</p>)}
              {day === 13 && <p className="mt-1 text-[11px] text-gray-500">+2 more</p>}
            </div>
          )
        })}
      </div>
    </main>
  )
}
