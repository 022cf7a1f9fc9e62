// expect: REQUEST_FAILED 7
import { useEffect, useState } from 'react'

export default function Page() {
  const [n, setN] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => fetch('/live').then(() => setN((v) => v + 1)), 200)
    return () => clearInterval(timer)
  }, [])
  return <main className="h-[720px] bg-white p-16"><h1 className="text-4xl">Live {n > 99 ? n : ''}</h1></main>
}
