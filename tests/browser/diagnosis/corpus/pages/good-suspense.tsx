// expect: nothing. A fallback first, the content later.
import { Suspense, use, lazy } from 'react'
const p = new Promise<string>((done) => setTimeout(() => done('Here at last'), 700))
function Late() { return <h1 className="text-4xl">{use(p)}</h1> }
export default function Page() {
  return <main className="h-[720px] bg-white p-16"><Suspense fallback={<p>Loading…</p>}><Late /></Suspense></main>
}
