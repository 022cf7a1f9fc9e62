// A funnel cut by clip paths, with words on each slice and figures beside it.
const slices = [
  { name: 'Visitors', n: 48200, colour: '#1d4ed8', inset: [0, 8] },
  { name: 'Sign-ups', n: 9310, colour: '#2563eb', inset: [8, 18] },
  { name: 'Trials', n: 4120, colour: '#3b82f6', inset: [18, 30] },
  { name: 'Customers', n: 1180, colour: '#0f766e', inset: [30, 38] },
]

export default function Funnel() {
  return (
    <main className="h-[720px] w-[1280px] bg-slate-50 p-14 text-slate-900">
      <h1 className="text-4xl font-bold">From visit to contract</h1>
      <div className="mt-10 space-y-2">
        {slices.map((slice) => (
          <div key={slice.name} className="flex items-center">
            <div
              className="grid h-28 w-[820px] place-items-center text-2xl font-semibold text-white"
              style={{ background: slice.colour, clipPath: `polygon(${slice.inset[0]}% 0, ${100 - slice.inset[0]}% 0, ${100 - slice.inset[1]}% 100%, ${slice.inset[1]}% 100%)` }}
            >
              {slice.name}
            </div>
            <div className="ml-10">
              <p className="text-3xl font-bold tabular-nums">{slice.n.toLocaleString('en')}</p>
              <p className="text-slate-500">{((slice.n / slices[0].n) * 100).toFixed(1)} %</p>
            </div>
          </div>
        ))}
      </div>
    </main>
  )
}
