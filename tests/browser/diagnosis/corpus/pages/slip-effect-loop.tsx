// expect: UPDATE_LOOP 6
import { useEffect, useState } from 'react'

export default function Page() {
  const [n, setN] = useState(0)
  useEffect(() => setN((v) => v + 1))
  return <main className="h-[720px] bg-white p-16"><h1 className="text-4xl">{n > -1 ? 'Counting' : ''}</h1></main>
}
