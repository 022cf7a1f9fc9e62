// expect: nothing. A form with every kind of field, controlled and not.
import { useState } from 'react'

export default function Page() {
  const [name, setName] = useState('Ada')
  return (
    <form className="mx-auto flex h-[720px] w-[560px] flex-col justify-center gap-5 bg-white text-slate-800" onSubmit={(e) => e.preventDefault()}>
      <h1 className="text-3xl font-bold">Join the list</h1>
      <label className="block">Name<input value={name} onChange={(e) => setName(e.target.value)} className="mt-1 w-full rounded border border-slate-300 px-3 py-2" /></label>
      <label className="block">Mail<input type="email" defaultValue="" placeholder="you@example.org" className="mt-1 w-full rounded border border-slate-300 px-3 py-2" /></label>
      <label className="flex items-center gap-2"><input type="checkbox" defaultChecked /> Once a month, not more</label>
      <select defaultValue="b" className="rounded border border-slate-300 px-3 py-2"><option value="a">Bakery</option><option value="b">Bicycle shop</option></select>
      <input type="range" min={0} max={10} defaultValue={3} />
      <progress value={0.4} className="w-full" />
      <button disabled className="rounded bg-slate-300 py-3 text-slate-500">Send</button>
    </form>
  )
}
