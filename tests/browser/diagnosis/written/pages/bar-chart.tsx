// A bar chart as SVG, its axis titles turned, its values above the bars.
const data = [
  { name: 'Hamburg', value: 82 },
  { name: 'Bremen', value: 54 },
  { name: 'Kiel', value: 37 },
  { name: 'Lübeck', value: 29 },
  { name: 'Rostock', value: 46 },
]

export default function BarChart() {
  const max = 100
  const height = 380
  return (
    <main className="h-[720px] w-[1280px] bg-white p-12 font-sans">
      <h1 className="text-3xl font-semibold text-gray-900">Rides per day, in thousands</h1>
      <p className="mt-1 text-gray-500">Average of the working days in November</p>
      <svg width="1180" height="500" className="mt-6" role="img" aria-label="Rides per day by city">
        <g transform="translate(80 20)">
          {[0, 25, 50, 75, 100].map((tick) => (
            <g key={tick} transform={`translate(0 ${height - (tick / max) * height})`}>
              <line x2="1060" stroke="#e5e7eb" />
              <text x="-12" dy="4" textAnchor="end" fontSize="13" fill="#6b7280">{tick}</text>
            </g>
          ))}
          {data.map((d, i) => {
            const h = (d.value / max) * height
            return (
              <g key={d.name} transform={`translate(${60 + i * 205} 0)`}>
                <rect y={height - h} width="110" height={h} rx="6" fill={i === 0 ? '#2563eb' : '#93c5fd'} />
                <text x="55" y={height - h - 10} textAnchor="middle" fontSize="16" fontWeight="600" fill="#111827">{d.value}</text>
                <text x="55" y={height + 28} textAnchor="middle" fontSize="15" fill="#374151">{d.name}</text>
              </g>
            )
          })}
          <text transform="translate(-54 190) rotate(-90)" textAnchor="middle" fontSize="13" fill="#6b7280">thousand rides</text>
        </g>
      </svg>
      <p className="mt-4 text-xs text-gray-400">Source: transport authority, December 2025</p>
    </main>
  )
}
