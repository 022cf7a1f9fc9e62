// Inset shadows; memo, forwardRef, lazy with Suspense, an external store, a timer.
import { useEffect, useState, useSyncExternalStore, memo, forwardRef, lazy, Suspense } from 'react'
const Dot = memo(forwardRef<HTMLSpanElement, { on: boolean }>(({ on }, ref) => <span ref={ref} className={`size-3 rounded-full ${on ? 'bg-emerald-500' : 'bg-gray-300'}`} />))
const Later = lazy(async () => { await new Promise((r) => setTimeout(r, 400)); return { default: () => <p className="text-gray-600">All four stations answered.</p> } })
const subscribe = (f: () => void) => { window.addEventListener('resize', f); return () => window.removeEventListener('resize', f) }
export default function Status() {
  const wide = useSyncExternalStore(subscribe, () => innerWidth > 800)
  const [n, setN] = useState(0)
  useEffect(() => { const t = setInterval(() => setN((x) => Math.min(4, x + 1)), 150); return () => clearInterval(t) }, [])
  return (
    <main className="grid min-h-screen place-items-center bg-[#e6e9ef]">
      <div className="w-[560px] rounded-[40px] bg-[#e6e9ef] p-12 shadow-[20px_20px_60px_#c4c6cb,-20px_-20px_60px_#ffffff]">
        <h1 className="text-3xl font-bold text-gray-800">Stations</h1>
        <ul className="mt-6 space-y-4">{['Alpha', 'Beta', 'Gamma', 'Delta'].map((s, i) => <li key={s} className="flex items-center justify-between rounded-2xl px-5 py-3 text-gray-700 shadow-[inset_4px_4px_10px_#c4c6cb,inset_-4px_-4px_10px_#ffffff]">{s}<Dot on={i < n} /></li>)}</ul>
        <div className="mt-6 h-6"><Suspense fallback={<div className="h-4 w-40 animate-pulse rounded bg-gray-300" />}><Later /></Suspense></div>
        {wide && <p className="mt-2 text-sm text-gray-500">Wide layout</p>}
      </div>
    </main>
  )
}
