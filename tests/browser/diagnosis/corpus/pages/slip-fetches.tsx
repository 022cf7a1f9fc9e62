// expect: REQUEST_FAILED 7
import { useEffect, useState } from 'react'

export default function Page() {
  const [n, setN] = useState(3)
  useEffect(() => {
    fetch('/api/shops').then((r) => (r.ok ? r.json() : { n: 3 })).then((d) => setN(d.n)).catch(() => undefined)
  }, [])
  return <main className="h-[720px] bg-white p-16"><h1 className="text-4xl">{n} shops</h1></main>
}
