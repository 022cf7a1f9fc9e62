// canvas: 1280xauto. Questions that unfold, one of them open, and a form field with a label that floats.
const questions = [
  { q: 'Can I cancel at any time?', a: 'Yes, to the end of each month, without a reason.' },
  { q: 'Where is my data?', a: 'In two data centres in Finland. Backups stay for thirty days and are encrypted with your own key.' },
  { q: 'Do you offer discounts for schools?', a: 'Schools and non-profit organisations pay half.' },
]

export default function Faq() {
  return (
    <main className="mx-auto max-w-3xl px-6 py-16 text-gray-900">
      <h1 className="text-4xl font-bold">Questions and answers</h1>
      <div className="mt-10 divide-y divide-gray-200 border-y border-gray-200">
        {questions.map((each, i) => (
          <details key={each.q} open={i === 1} className="group py-5">
            <summary className="flex cursor-pointer list-none items-center justify-between text-lg font-medium">
              {each.q}
              <span className="text-2xl text-gray-400 transition group-open:rotate-45">+</span>
            </summary>
            <p className="mt-3 leading-relaxed text-gray-600">{each.a}</p>
          </details>
        ))}
      </div>
      <div className="relative mt-12">
        <label className="absolute -top-2.5 left-3 bg-white px-1 text-sm text-indigo-600" htmlFor="mail">Your question</label>
        <textarea id="mail" rows={4} className="w-full rounded-xl border-2 border-indigo-500 p-4" defaultValue="How do I move my old pages over?" />
      </div>
      <p className="sr-only">Answers usually take one working day.</p>
      <button className="mt-4 rounded-lg bg-indigo-600 px-6 py-3 font-semibold text-white" type="button">Send</button>
    </main>
  )
}
