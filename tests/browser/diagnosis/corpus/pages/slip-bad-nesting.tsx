// expect: NESTING_INVALID 6
export default function Page() {
  return (
    <main className="h-[720px] bg-white p-16">
      <p className="text-xl">
        <div className="rounded bg-slate-100 p-4">A box inside a paragraph</div>
      </p>
    </main>
  )
}
