// expect: TEXT_UNREADABLE 6
export default function Page() {
  return (
    <main className="h-[720px] bg-slate-900 p-16">
      <h1 className="text-5xl font-bold text-slate-50">Risks</h1>
      <p className="mt-6 text-xl text-slate-800">Two platform roles stay open until spring.</p>
    </main>
  )
}
