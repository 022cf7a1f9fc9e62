// A ticket: a perforated line with two notches, a turned code at the side, monospaced figures.
export default function BoardingPass() {
  const bars = Array.from({ length: 46 }, (_, i) => 1 + ((i * 7) % 4))
  return (
    <main className="grid h-[720px] w-[1280px] place-items-center bg-sky-200">
      <div className="relative flex h-[360px] w-[980px] overflow-hidden rounded-3xl bg-white shadow-2xl">
        <div className="flex w-16 items-center justify-center bg-sky-700"><span className="-rotate-90 font-mono text-sm tracking-[0.4em] whitespace-nowrap text-white">BOARDING PASS</span></div>
        <div className="flex-1 p-9">
          <div className="flex items-center justify-between">
            <div><p className="text-xs text-slate-500 uppercase">From</p><p className="text-6xl font-bold text-slate-900">LEJ</p><p className="text-slate-500">Leipzig</p></div>
            <div className="flex-1 px-8 text-center text-sky-700"><div className="flex items-center"><span className="h-px flex-1 bg-sky-300" /><span className="px-3 text-2xl">✈</span><span className="h-px flex-1 bg-sky-300" /></div><p className="mt-1 text-sm">1 h 55 min</p></div>
            <div className="text-right"><p className="text-xs text-slate-500 uppercase">To</p><p className="text-6xl font-bold text-slate-900">OSL</p><p className="text-slate-500">Oslo</p></div>
          </div>
          <dl className="mt-9 grid grid-cols-4 gap-4">
            {[['Passenger', 'VOGEL/K'], ['Date', '14 FEB'], ['Gate', 'B07'], ['Seat', '12A']].map(([k, v]) => <div key={k}><dt className="text-xs text-slate-500 uppercase">{k}</dt><dd className="font-mono text-xl text-slate-900">{v}</dd></div>)}
          </dl>
        </div>
        <div className="absolute -top-5 left-[724px] size-10 rounded-full bg-sky-200" />
        <div className="absolute -bottom-5 left-[724px] size-10 rounded-full bg-sky-200" />
        <div className="flex w-[236px] flex-col items-center justify-center border-l-2 border-dashed border-sky-200 p-6">
          <svg width="180" height="120" aria-hidden="true">{bars.map((w, i) => <rect key={i} x={i * 4} width={w} height="120" fill="#0f172a" />)}</svg>
          <p className="mt-3 font-mono text-sm text-slate-600">0 74912 00318 5</p>
        </div>
      </div>
    </main>
  )
}
