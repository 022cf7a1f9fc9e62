// A dark dashboard: numbers that count up in frames, a hook of its own, bars with hidden hints.
import { useEffect, useMemo, useRef, useState } from 'react'

const rows = Array.from({ length: 24 }, (_, i) => ({ hour: i, load: Math.round(40 + 35 * Math.sin(i / 3.1) + (i % 5) * 3) }))

function useAnimatedNumber(target: number, ms = 900) {
  const [value, setValue] = useState(0)
  const start = useRef<number | null>(null)
  useEffect(() => {
    let frame = 0
    const step = (t: number) => {
      start.current ??= t
      const p = Math.min(1, (t - start.current) / ms)
      setValue(Math.round(target * (1 - Math.pow(1 - p, 3))))
      if (p < 1) frame = requestAnimationFrame(step)
    }
    frame = requestAnimationFrame(step)
    return () => cancelAnimationFrame(frame)
  }, [target, ms])
  return value
}

function Sparkline({ data, tone }: { data: number[]; tone: string }) {
  const d = useMemo(() => data.map((v, i) => `${i ? 'L' : 'M'}${(i / (data.length - 1)) * 120} ${36 - (v / 100) * 32}`).join(''), [data])
  return <svg viewBox="0 0 120 40" className="h-10 w-full" preserveAspectRatio="none"><path d={d} fill="none" stroke={tone} strokeWidth={2} vectorEffect="non-scaling-stroke" /></svg>
}

function Kpi({ label, value, unit, tone }: { label: string; value: number; unit: string; tone: string }) {
  const shown = useAnimatedNumber(value)
  return (
    <div className="rounded-xl bg-slate-900/70 p-5 ring-1 ring-white/10">
      <div className="flex items-center justify-between text-xs tracking-widest text-slate-400 uppercase"><span>{label}</span><span className="inline-block size-2 animate-pulse rounded-full" style={{ background: tone }} /></div>
      <div className="mt-2 flex items-baseline gap-1"><span className="text-4xl font-semibold text-white tabular-nums">{shown.toLocaleString('en-US')}</span><span className="text-sm text-slate-400">{unit}</span></div>
      <Sparkline data={rows.map((r) => r.load)} tone={tone} />
    </div>
  )
}

export default function Dash() {
  const [range, setRange] = useState<'24h' | '7d'>('24h')
  return (
    <div className="min-h-screen bg-slate-950 p-8 text-slate-200">
      <header className="mb-6 flex items-center justify-between">
        <div><h1 className="text-2xl font-bold text-white">Grid control</h1><p className="text-sm text-slate-400">Region North · live</p></div>
        <div className="flex overflow-hidden rounded-lg ring-1 ring-white/15">
          {(['24h', '7d'] as const).map((r) => <button key={r} onClick={() => setRange(r)} className={`px-4 py-1.5 text-sm ${range === r ? 'bg-cyan-500 text-slate-950' : 'text-slate-300'}`}>{r}</button>)}
        </div>
      </header>
      <section className="grid grid-cols-4 gap-4">
        <Kpi label="Load" value={61240} unit="MW" tone="#22d3ee" />
        <Kpi label="Wind" value={18411} unit="MW" tone="#34d399" />
        <Kpi label="Price" value={74} unit="€/MWh" tone="#fbbf24" />
        <Kpi label="Alerts" value={3} unit="open" tone="#fb7185" />
      </section>
      <section className="mt-4 rounded-xl bg-slate-900/70 p-5 ring-1 ring-white/10">
        <h2 className="text-sm font-medium text-slate-300">Load by hour</h2>
        <div className="mt-4 flex h-72 items-end gap-1.5">
          {rows.map((r) => (
            <div key={r.hour} className="group relative flex h-full flex-1 flex-col justify-end">
              <div className="rounded-t bg-gradient-to-t from-cyan-700 to-cyan-400" style={{ height: `${r.load}%` }} />
              <span className="mt-1 text-center text-[10px] text-slate-400">{String(r.hour).padStart(2, '0')}</span>
              <span className="pointer-events-none absolute -top-6 left-1/2 -translate-x-1/2 rounded bg-white px-1.5 text-xs text-slate-900 opacity-0 transition-opacity group-hover:opacity-100">{r.load}</span>
            </div>
          ))}
        </div>
      </section>
    </div>
  )
}
