// Things that lie over each other on purpose: avatars, a deck of cards, a card over a hero, tight capitals, a covered bar.
import Avatar from '@components/Avatar.tsx'

export default function Stacks() {
  return (
    <main className="h-[720px] w-[1280px] bg-white">
      <header className="h-64 bg-gradient-to-r from-teal-700 to-cyan-700 p-12 text-white">
        <h1 className="text-7xl leading-[0.8] font-black tracking-tight uppercase">Tight type<br />stays legible</h1>
      </header>
      <section className="relative mx-12 -mt-12 flex items-center justify-between rounded-2xl bg-white p-8 shadow-xl">
        <div className="flex -space-x-2">{['Ana Prado', 'Jun Sato', 'Ike Obi', 'Lea Brandt', 'Sam Hill'].map((n) => <span key={n} className="rounded-full ring-2 ring-white"><Avatar name={n} /></span>)}<span className="grid size-9 place-items-center rounded-full bg-gray-200 text-xs text-gray-700 ring-2 ring-white">+4</span></div>
        <div className="relative h-8 w-72 overflow-hidden rounded-full bg-gray-200"><div className="absolute inset-y-0 left-0 w-3/5 bg-teal-200" /><span className="relative block text-center leading-8 text-gray-900">60 % of the goal</span></div>
      </section>
      <div className="relative mx-auto mt-14 h-72 w-[520px]">
        {['Third', 'Second', 'First'].map((name, i) => (
          <article key={name} className="absolute h-56 w-full rounded-3xl border border-gray-200 bg-white p-8 shadow-lg" style={{ top: i * 24, transform: `scale(${0.9 + i * 0.05})`, zIndex: i }}>
            <h2 className="text-2xl font-semibold text-gray-900">{name} card</h2>
            <p className="mt-3 text-gray-600">Only the one in front can be read; the others wait behind it.</p>
          </article>
        ))}
      </div>
    </main>
  )
}
