// Cells whose ground depends on their value, and whose letters depend on their ground.
const days = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri']
const hours = [8, 9, 10, 11, 12, 13, 14, 15, 16, 17]
const load = (d: number, h: number) => Math.round(50 + 45 * Math.sin(d * 1.3 + h * 0.7))

export default function Heatmap() {
  return (
    <main className="h-[720px] w-[1280px] bg-white p-14">
      <h1 className="text-3xl font-bold text-slate-900">When the counter is busy</h1>
      <div className="mt-10 grid gap-1.5" style={{ gridTemplateColumns: '80px repeat(10, 1fr)' }}>
        <span />
        {hours.map((h) => <span key={h} className="text-center text-sm text-slate-500">{h}:00</span>)}
        {days.map((day, d) => [
          <span key={day} className="self-center text-sm font-medium text-slate-600">{day}</span>,
          ...hours.map((h) => {
            const value = load(d, h)
            return (
              <span key={`${day}-${h}`} className="grid h-20 place-items-center rounded-lg text-sm font-medium" style={{ backgroundColor: `hsl(221 83% ${97 - value * 0.55}%)`, color: value > 45 ? '#fff' : '#1e3a8a' }}>
                {value}
              </span>
            )
          }),
        ])}
      </div>
      <div className="mt-8 flex items-center gap-3 text-sm text-slate-500">quiet<span className="h-3 w-60 rounded-full bg-gradient-to-r from-blue-50 to-blue-800" />busy</div>
    </main>
  )
}
