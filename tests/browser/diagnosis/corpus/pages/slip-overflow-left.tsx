// expect: CANVAS_OVERFLOW 5
export default function Page() {
  return (
    <main className="relative h-[720px] w-[1280px] bg-white">
      <h1 className="absolute top-20 left-[-120px] text-6xl font-bold">Quarterly numbers</h1>
      <p className="absolute top-52 left-16 text-xl">Everything is in thousand euros.</p>
    </main>
  )
}
