// expect: PAGE_ERROR components/Right.tsx:3
import { left } from '@components/Left.tsx'

export default function Page() {
  return <main className="h-[720px] bg-white p-16"><h1 className="text-4xl">{left}</h1></main>
}
