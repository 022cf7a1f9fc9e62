// canvas: 1280xauto. A timeline down the middle, entries left and right of it in turns.
const entries = [
  { year: '1998', title: 'Two people and a van', text: 'Deliveries in the old town, by hand and mostly on time.' },
  { year: '2006', title: 'The first depot', text: 'Forty bicycles, nine employees and a coffee machine that everybody still talks about.' },
  { year: '2014', title: 'All electric', text: 'The last diesel van is sold to a museum of everyday life.' },
  { year: '2021', title: 'Beyond the city', text: 'Trains carry parcels at night, bicycles take them from the station in the morning.' },
  { year: '2025', title: 'One million', text: 'A picture frame, delivered in Jena on the 12th of May at 10:42.' },
]

export default function History() {
  return (
    <main className="mx-auto max-w-5xl px-8 py-20 font-sans text-neutral-800">
      <h1 className="text-center text-5xl font-black tracking-tight">Our history</h1>
      <div className="relative mt-20">
        <div className="absolute top-0 bottom-0 left-1/2 w-0.5 -translate-x-1/2 bg-neutral-300" />
        {entries.map((entry, i) => (
          <div key={entry.year} className={`relative mb-12 flex ${i % 2 ? 'justify-end' : ''}`}>
            <span className="absolute top-4 left-1/2 z-10 size-4 -translate-x-1/2 rounded-full border-4 border-white bg-red-600 ring-2 ring-red-600" />
            <div className={`w-[44%] rounded-2xl border border-neutral-200 bg-white p-6 shadow-sm ${i % 2 ? '' : 'text-right'}`}>
              <p className="text-sm font-bold text-red-600">{entry.year}</p>
              <h2 className="mt-1 text-xl font-semibold">{entry.title}</h2>
              <p className="mt-2 text-neutral-600">{entry.text}</p>
            </div>
          </div>
        ))}
      </div>
    </main>
  )
}
