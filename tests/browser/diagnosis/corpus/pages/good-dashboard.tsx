// expect: nothing. Tiles, a chart of boxes, a side bar.
import { useState } from 'react'
const data = ['Mon','Tue','Wed','Thu','Fri','Sat','Sun'].map((k, i) => ({ k, v: [120, 180, 90, 210, 160, 60, 40][i] }))
export default function Page() {
  const [tab, setTab] = useState('week')
  const max = Math.max(...data.map((d) => d.v))
  return (
    <div className="flex h-[720px] w-[1280px] bg-gray-100 text-gray-900">
      <aside className="w-56 bg-gray-900 p-6 text-gray-300"><p className="text-xl font-bold text-white">Acme</p><nav className="mt-8 space-y-3">{['Overview','Orders','Customers','Settings'].map((n, i) => <a key={n} className={i === 0 ? 'block rounded bg-gray-800 px-3 py-2 text-white' : 'block px-3 py-2'}>{n}</a>)}</nav></aside>
      <main className="flex-1 p-8">
        <header className="flex items-center justify-between"><h1 className="text-2xl font-bold">Overview</h1><div className="flex rounded-lg bg-white p-1 shadow-sm">{['day','week','month'].map((t) => <button key={t} onClick={() => setTab(t)} className={`rounded-md px-3 py-1 text-sm ${t === tab ? 'bg-gray-900 text-white' : 'text-gray-500'}`}>{t}</button>)}</div></header>
        <section className="mt-6 grid grid-cols-4 gap-4">{[['Revenue','€48,200','+12%'],['Orders','1,204','+3%'],['Refunds','18','-2%'],['Rating','4.8','+0.1']].map(([l,v,d]) => <div key={l} className="rounded-xl bg-white p-5 shadow-sm"><p className="text-xs text-gray-500 uppercase">{l}</p><p className="mt-1 text-2xl font-bold">{v}</p><p className={d.startsWith('+') ? 'text-xs text-emerald-600' : 'text-xs text-rose-600'}>{d} this {tab}</p></div>)}</section>
        <section className="mt-6 rounded-xl bg-white p-6 shadow-sm"><h2 className="font-semibold">Orders</h2><div className="mt-4 flex h-56 items-end gap-3 border-b border-gray-200">{data.map((d) => <div key={d.k} className="group relative flex-1 rounded-t bg-indigo-500" style={{ height: `${(d.v / max) * 100}%` }}><span className="absolute -top-5 w-full text-center text-xs text-gray-500">{d.v}</span></div>)}</div><div className="mt-2 flex gap-3 text-center text-xs text-gray-500">{data.map((d) => <span key={d.k} className="flex-1">{d.k}</span>)}</div></section>
      </main>
    </div>
  )
}
