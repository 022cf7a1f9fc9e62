// expect: PAGE_BLANK 8
import { useState } from 'react'

export default function Page() {
  const [rows] = useState<string[]>([])
  // Nobody ever fills the list.
  return (
    <ul className="h-[720px] bg-gradient-to-b from-white to-slate-100">
      {rows.map((r) => <li key={r}>{r}</li>)}
    </ul>
  )
}
