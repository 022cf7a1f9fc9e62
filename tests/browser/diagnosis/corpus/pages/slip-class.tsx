// expect: ATTRIBUTE_UNKNOWN 5
export default function Page() {
  return (
    <main className="h-[720px] bg-white p-16">
      <h1 class="text-4xl">Written as HTML</h1>
    </main>
  )
}
