// Layers of a pyramid, each wider than the one above, with remarks at both sides.
const layers = [
  { name: 'Vision', width: 220, colour: 'bg-purple-800', note: 'changes once in ten years' },
  { name: 'Strategy', width: 380, colour: 'bg-purple-700', note: 'every three years' },
  { name: 'Goals', width: 540, colour: 'bg-purple-600', note: 'every year' },
  { name: 'Initiatives', width: 700, colour: 'bg-purple-500', note: 'every quarter' },
]

export default function Pyramid() {
  return (
    <main className="flex h-[720px] w-[1280px] flex-col bg-white p-14">
      <h1 className="text-4xl font-bold text-purple-950">What changes how often</h1>
      <div className="mt-12 flex flex-1 flex-col items-start gap-3">
        {layers.map((layer, i) => (
          <div key={layer.name} className="relative flex h-24 w-[760px] justify-center">
            <div className={`flex items-center justify-center rounded-xl text-2xl font-semibold text-white ${layer.colour}`} style={{ width: layer.width }}>{layer.name}</div>
            <span className="absolute top-1/2 left-[calc(100%+24px)] -translate-y-1/2 text-lg whitespace-nowrap text-gray-600"><b className="mr-3 text-purple-700">{i + 1}</b>{layer.note}</span>
          </div>
        ))}
      </div>
    </main>
  )
}
