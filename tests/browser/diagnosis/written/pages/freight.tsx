// A pie and a radar chart, drawn; labels beside their slices.
import { useId } from 'react'
const slices = [{ n: 'Rail', v: 42, c: '#2563eb' }, { n: 'Road', v: 31, c: '#f59e0b' }, { n: 'Sea', v: 18, c: '#10b981' }, { n: 'Air', v: 9, c: '#ef4444' }]
const polar = (r: number, a: number) => [Math.cos(a) * r, Math.sin(a) * r]
function Pie() {
  const id = useId()
  let at = -Math.PI / 2
  return (
    <svg viewBox="-160 -160 320 320" className="h-[420px] w-[420px]" role="img" aria-labelledby={id}>
      <title id={id}>Freight by carrier</title>
      {slices.map((s) => {
        const a0 = at, a1 = (at += (s.v / 100) * Math.PI * 2), mid = (a0 + a1) / 2
        const [x0, y0] = polar(120, a0), [x1, y1] = polar(120, a1), [tx, ty] = polar(78, mid), [lx, ly] = polar(142, mid)
        return <g key={s.n}><path d={`M0 0 L${x0} ${y0} A120 120 0 ${a1 - a0 > Math.PI ? 1 : 0} 1 ${x1} ${y1} Z`} fill={s.c} stroke="#fff" strokeWidth="2" /><text x={tx} y={ty} textAnchor="middle" dominantBaseline="central" fontSize="18" fontWeight="700" fill="#fff">{s.v}%</text><text x={lx} y={ly} textAnchor="middle" dominantBaseline="central" fontSize="14" fill="#334155">{s.n}</text></g>
      })}
      <circle r="42" fill="#fff" /><text textAnchor="middle" dominantBaseline="central" fontSize="20" fontWeight="800" fill="#0f172a">2026</text>
    </svg>
  )
}
function Radar() {
  const axes = ['Speed', 'Cost', 'Noise', 'Range', 'Care'], data = [0.8, 0.5, 0.9, 0.65, 0.4]
  const at = (i: number, r: number) => polar(r, -Math.PI / 2 + (i / axes.length) * Math.PI * 2)
  return (
    <svg viewBox="-170 -150 340 300" className="h-[420px] w-[470px]">
      {[0.25, 0.5, 0.75, 1].map((k) => <polygon key={k} points={axes.map((_, i) => at(i, 110 * k).join(',')).join(' ')} fill="none" stroke="#cbd5e1" />)}
      {axes.map((a, i) => <g key={a}><line x2={at(i, 110)[0]} y2={at(i, 110)[1]} stroke="#e2e8f0" /><text x={at(i, 130)[0]} y={at(i, 130)[1]} textAnchor="middle" dominantBaseline="middle" fontSize="13" fill="#475569">{a}</text></g>)}
      <polygon points={data.map((v, i) => at(i, v * 110).join(',')).join(' ')} fill="#6366f166" stroke="#4f46e5" strokeWidth="2.5" />
      {data.map((v, i) => <circle key={i} cx={at(i, v * 110)[0]} cy={at(i, v * 110)[1]} r="4" fill="#4f46e5" />)}
    </svg>
  )
}
export default () => (
  <main className="h-[720px] w-[1280px] bg-slate-50 p-12">
    <h1 className="text-4xl font-bold text-slate-900">How freight travels</h1>
    <p className="mt-1 text-slate-500">Share of tonne-kilometres, and how rail compares</p>
    <div className="mt-8 grid grid-cols-2 gap-8"><div className="grid place-items-center rounded-3xl bg-white shadow">{<Pie />}</div><div className="grid place-items-center rounded-3xl bg-white shadow"><Radar /></div></div>
  </main>
)
