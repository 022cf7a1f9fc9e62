// expect: PAGE_ERROR
import { useState } from 'react'

export default function Page() {
  const [n, setN] = useState(0)
  setN(n + 1)
  return <p>{n}</p>
}
