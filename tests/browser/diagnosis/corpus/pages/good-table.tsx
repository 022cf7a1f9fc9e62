// expect: nothing. A dense table that scrolls in its own box, with sums and badges.
import Stat from '@components/Stat.tsx'

const rows = Array.from({ length: 30 }, (_, i) => ({ id: i + 1, name: `Order ${1000 + i}`, sum: (i * 37) % 200, paid: i % 3 > 0 }))

export default function Page() {
  return (
    <main className="flex h-[720px] flex-col gap-6 bg-slate-100 p-10 text-slate-800">
      <div className="grid grid-cols-3 gap-6"><Stat label="Orders" value={rows.length} /><Stat label="Paid" value={rows.filter((r) => r.paid).length} /><Stat label="Sum" value={rows.reduce((a, r) => a + r.sum, 0)} /></div>
      <div className="min-h-0 flex-1 overflow-auto rounded-xl bg-white">
        <table className="w-[1600px] text-left text-sm">
          <thead className="sticky top-0 bg-slate-50"><tr><th className="p-3">Order</th><th className="p-3">Sum</th><th className="p-3">State</th></tr></thead>
          <tbody>{rows.map((r) => <tr key={r.id} className="border-t border-slate-200"><td className="p-3">{r.name}</td><td className="p-3 tabular-nums">{r.sum} €</td><td className="p-3"><span className={r.paid ? 'rounded bg-green-100 px-2 text-green-800' : 'rounded bg-red-100 px-2 text-red-800'}>{r.paid ? 'paid' : 'open'}</span></td></tr>)}</tbody>
        </table>
      </div>
    </main>
  )
}
