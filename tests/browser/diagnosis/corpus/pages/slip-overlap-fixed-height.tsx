// expect: TEXT_OVERLAP 13
const items = [
  ['Plan', 'Collect what the shops ask for, sort it, and choose three things that can be done by spring.'],
  ['Build', 'One thing after the other.'],
]

export default function Page() {
  return (
    <main className="h-[720px] bg-white p-16">
      {items.map(([title, text]) => (
        <section key={title} className="h-14 w-80">
          <h2 className="text-xl font-semibold">{title}</h2>
          <p className="text-lg">{text}</p>
        </section>
      ))}
    </main>
  )
}
