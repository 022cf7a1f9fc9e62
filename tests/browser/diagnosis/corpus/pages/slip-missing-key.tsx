// expect: KEY_MISSING 7
export default function Page() {
  return (
    <main className="h-[720px] bg-white p-16">
      <h1 className="text-4xl">Shops</h1>
      <ul>
        {['Bakery', 'Bicycles'].map((s) => <li>{s}</li>)}
      </ul>
    </main>
  )
}
