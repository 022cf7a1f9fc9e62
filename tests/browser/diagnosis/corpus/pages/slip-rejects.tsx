// expect: PAGE_REJECTION 6
import { useEffect } from 'react'

export default function Page() {
  useEffect(() => {
    const load = async () => { throw new Error('no shops') }
    void load()
  }, [])
  return <main className="h-[720px] bg-white p-16"><h1 className="text-4xl">Shops</h1></main>
}
