// expect: nothing. A dialog over a page that goes on beneath it.
import { useEffect, useState } from 'react'
import { createPortal } from 'react-dom'
export default function Page() {
  const [open, setOpen] = useState(false)
  useEffect(() => { setOpen(true) }, [])
  return (
    <main className="h-[720px] bg-white p-16"><h1 className="text-4xl font-bold">Documents</h1><p className="mt-4 text-lg">Everything that was written this quarter, in one list with dates and owners.</p>
      {Array.from({ length: 10 }, (_, i) => <p key={i} className="border-b py-3">Document number {i + 1} with a title that is long enough to reach below the dialog</p>)}
      {open && createPortal(<div className="fixed inset-0 grid place-items-center bg-black/50"><div className="w-96 rounded-xl bg-white p-8 shadow-xl"><h2 className="text-xl font-semibold">Delete it?</h2><p className="mt-2 text-gray-600">This cannot be undone.</p><div className="mt-6 flex justify-end gap-3"><button>Keep</button><button className="rounded bg-red-600 px-4 py-2 text-white">Delete</button></div></div></div>, document.body)}
    </main>
  )
}
