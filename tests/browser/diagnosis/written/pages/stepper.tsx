// Steps joined by a line that runs behind their circles; the current one with a ring.
const steps = ['Address', 'Shipping', 'Payment', 'Review', 'Done']

export default function Stepper() {
  const current = 2
  return (
    <main className="flex h-[720px] w-[1280px] items-center justify-center bg-gray-50">
      <div className="w-[1000px] rounded-3xl bg-white p-12 shadow-xl">
        <ol className="relative flex justify-between">
          <div className="absolute top-5 right-10 left-10 h-1 bg-gray-200" />
          <div className="absolute top-5 left-10 h-1 bg-blue-600" style={{ width: `${(current / (steps.length - 1)) * 92}%` }} />
          {steps.map((step, i) => (
            <li key={step} className="relative flex w-24 flex-col items-center">
              <span className={`grid h-11 w-11 place-items-center rounded-full font-semibold ${i < current ? 'bg-blue-600 text-white' : i === current ? 'bg-white text-blue-600 ring-4 ring-blue-600' : 'bg-gray-200 text-gray-500'}`}>{i < current ? '✓' : i + 1}</span>
              <span className={`mt-3 text-sm ${i <= current ? 'font-medium text-gray-900' : 'text-gray-500'}`}>{step}</span>
            </li>
          ))}
        </ol>
        <form className="mt-14 grid grid-cols-2 gap-6">
          <label className="col-span-2 block text-sm font-medium text-gray-700">Card number<input className="mt-1 w-full rounded-lg border border-gray-300 px-4 py-3 text-gray-900" placeholder="1234 5678 9012 3456" /></label>
          <label className="block text-sm font-medium text-gray-700">Valid until<input className="mt-1 w-full rounded-lg border border-gray-300 px-4 py-3" placeholder="MM / YY" /></label>
          <label className="block text-sm font-medium text-gray-700">Code<input type="password" defaultValue="123" className="mt-1 w-full rounded-lg border border-gray-300 px-4 py-3" /></label>
          <button type="button" className="col-span-2 rounded-lg bg-blue-600 py-3.5 font-semibold text-white">Pay € 84.50</button>
        </form>
      </div>
    </main>
  )
}
