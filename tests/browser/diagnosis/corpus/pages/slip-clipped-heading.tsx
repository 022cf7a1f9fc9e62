// expect: TEXT_CLIPPED 6
export default function Page() {
  return (
    <main className="h-[720px] bg-slate-50 p-16">
      <h2 className="text-2xl">Next</h2>
      <div className="mt-4 h-16 w-96 overflow-hidden rounded bg-white p-4">
        <p className="text-xl">Decide about the second mail provider, and who talks to the first one about it.</p>
      </div>
    </main>
  )
}
