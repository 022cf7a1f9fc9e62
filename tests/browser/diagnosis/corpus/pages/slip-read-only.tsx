// expect: FIELD_READ_ONLY 6
export default function Page() {
  return (
    <main className="h-[720px] bg-white p-16">
      <h1 className="text-4xl">Search</h1>
      <input className="border" value="bread" />
    </main>
  )
}
