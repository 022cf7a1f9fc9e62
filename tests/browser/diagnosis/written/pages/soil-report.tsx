// canvas: 1280xauto. A long report: drop caps, tables, footnotes, a contents that sticks.
const sections = ['Summary', 'Method', 'Results', 'Discussion', 'Outlook']
const P = ({ children }: { children: React.ReactNode }) => <p className="my-4 leading-7 text-stone-700">{children}</p>
export default function Report() {
  return (
    <article className="mx-auto grid max-w-6xl grid-cols-[200px_1fr] gap-12 bg-white px-10 py-16 text-stone-900">
      <nav className="sticky top-6 h-fit border-l-2 border-stone-200 pl-4 text-sm"><ul className="space-y-2">{sections.map((s, i) => <li key={s}><a href={`#s${i}`} className={i === 0 ? 'font-semibold text-emerald-700' : 'text-stone-500'}>{s}</a></li>)}</ul></nav>
      <div>
        <h1 className="font-serif text-5xl">Soil after the flood<sup className="text-lg">1</sup></h1>
        <p className="mt-3 text-stone-500">Field report · 48 plots · 2024–2025</p>
        {sections.map((s, i) => (
          <section key={s} id={`s${i}`} className="mt-12">
            <h2 className="border-b pb-2 font-serif text-3xl">{i + 1}&ensp;{s}</h2>
            <P><span className="float-left mr-2 font-serif text-6xl leading-[0.8]">{'TWRDO'[i]}</span>he plots were visited every second week and probed at three depths. Nothing was added, nothing was taken away but the samples themselves, each of them two hundred grams, dried for a night at one hundred and five degrees.</P>
            <figure className="my-6 overflow-x-auto rounded-lg border">
              <table className="w-full text-left text-sm"><caption className="caption-bottom p-2 text-xs text-stone-500">Table {i + 1}. Means of three depths, in g/kg.</caption>
                <thead className="bg-stone-100"><tr><th className="p-2">Plot</th><th className="p-2 text-right">10 cm</th><th className="p-2 text-right">30 cm</th><th className="p-2 text-right">60 cm</th></tr></thead>
                <tbody>{[1, 2, 3, 4].map((n) => <tr key={n} className="odd:bg-stone-50"><td className="p-2">N{n}</td>{[3, 2, 1].map((k) => <td key={k} className="p-2 text-right tabular-nums">{(n * 2.7 + k * 1.3).toFixed(1)}</td>)}</tr>)}</tbody>
              </table>
            </figure>
            <blockquote className="border-l-4 border-emerald-600 bg-emerald-50 p-4 italic">“The river gives, the river takes, and the accountant is surprised each time.”</blockquote>
            <P>H<sub>2</sub>O content followed x<sup>2</sup> + 3x. See <a className="text-emerald-700 underline decoration-dotted underline-offset-4" href="#s2">Results</a>, <code className="rounded bg-stone-100 px-1 text-[0.9em]">plot.fit()</code> and <kbd className="rounded border px-1 shadow">⌘K</kbd>.</P>
          </section>
        ))}
        <footer className="mt-16 border-t pt-4 text-xs text-stone-500"><p id="fn1"><sup>1</sup> This report replaces the draft of March.</p></footer>
      </div>
    </article>
  )
}
