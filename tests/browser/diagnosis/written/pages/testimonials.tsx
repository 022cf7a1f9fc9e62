// Cards with an avatar that sticks out at the top, and stars as text.
import Avatar from '@components/Avatar.tsx'

const voices = [
  { name: 'Ingrid Solberg', firm: 'Fjord Ferries', text: 'We replaced three tools and a spreadsheet. Nobody misses the spreadsheet.', stars: 5 },
  { name: 'Marco Bellini', firm: 'Officine Bellini', text: 'The support answers in minutes, in Italian, and knows what a lathe is.', stars: 5 },
  { name: 'Yuki Tanaka', firm: 'Hoshi Tea', text: 'Setting it up took an afternoon. Our warehouse has been quiet since.', stars: 4 },
]

export default function Testimonials() {
  return (
    <section className="flex h-[720px] w-[1280px] flex-col justify-center bg-indigo-50 px-20">
      <h1 className="text-center text-4xl font-bold text-indigo-950">What our customers say</h1>
      <div className="mt-24 grid grid-cols-3 gap-10">
        {voices.map((voice) => (
          <figure key={voice.name} className="relative rounded-3xl bg-white px-8 pt-12 pb-8 text-center shadow-xl shadow-indigo-200/50">
            <div className="absolute -top-7 left-1/2 -translate-x-1/2 rounded-full ring-4 ring-indigo-50">
              <Avatar name={voice.name} size="lg" />
            </div>
            <blockquote className="text-lg leading-relaxed text-slate-700">“{voice.text}”</blockquote>
            <p className="mt-4 text-amber-500" aria-label={`${voice.stars} of 5`}>{'★'.repeat(voice.stars)}<span className="text-slate-300">{'★'.repeat(5 - voice.stars)}</span></p>
            <figcaption className="mt-3 text-sm"><strong className="text-slate-900">{voice.name}</strong><br /><span className="text-slate-500">{voice.firm}</span></figcaption>
          </figure>
        ))}
      </div>
    </section>
  )
}
