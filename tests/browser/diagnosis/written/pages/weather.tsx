// Weather: emoji as icons, degrees, a glassy panel over a gradient sky, a range of temperatures as bars.
const days = [
  { day: 'Today', icon: '⛅', low: 3, high: 11 },
  { day: 'Fri', icon: '🌧️', low: 5, high: 9 },
  { day: 'Sat', icon: '☀️', low: 1, high: 13 },
  { day: 'Sun', icon: '❄️', low: -4, high: 2 },
]

export default function Weather() {
  return (
    <main className="flex h-[720px] w-[1280px] items-center justify-center gap-16 bg-gradient-to-b from-sky-500 via-sky-600 to-indigo-700 text-white">
      <div className="text-center">
        <p className="text-3xl font-medium">Bergen</p>
        <p className="text-[160px] leading-none font-thin">11°</p>
        <p className="text-xl text-sky-100">Mostly cloudy · wind 14 km/h</p>
      </div>
      <ul className="w-[440px] rounded-3xl bg-white/15 p-7 backdrop-blur-md">
        {days.map((d) => (
          <li key={d.day} className="flex items-center gap-4 border-b border-white/20 py-4 last:border-0">
            <span className="w-16">{d.day}</span>
            <span className="w-10 text-2xl">{d.icon}</span>
            <span className="w-10 text-right text-sky-100 tabular-nums">{d.low}°</span>
            <span className="relative h-1.5 flex-1 rounded-full bg-white/20"><span className="absolute h-full rounded-full bg-amber-300" style={{ left: `${(d.low + 5) * 4.5}%`, right: `${100 - (d.high + 5) * 5}%` }} /></span>
            <span className="w-10 tabular-nums">{d.high}°</span>
          </li>
        ))}
      </ul>
    </main>
  )
}
