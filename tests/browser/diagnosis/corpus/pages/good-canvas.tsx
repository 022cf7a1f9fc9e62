// expect: nothing. Charts in SVG and on a canvas; text inside SVG over its shapes.
import { useEffect, useRef } from 'react'

const data = [12, 19, 8, 24, 17, 29]

export default function Page() {
  const ref = useRef<HTMLCanvasElement>(null)
  useEffect(() => {
    const pen = ref.current?.getContext('2d')
    if (!pen) return
    pen.fillStyle = '#0f766e'
    data.forEach((v, i) => pen.fillRect(i * 60 + 10, 200 - v * 6, 40, v * 6))
  }, [])
  return (
    <main className="h-[720px] bg-slate-50 p-16">
      <h1 className="text-4xl font-bold text-slate-900">Orders a week</h1>
      <div className="mt-8 flex gap-10">
        <canvas ref={ref} width={400} height={220} className="rounded bg-white" />
        <svg viewBox="0 0 400 220" width="400" height="220" className="rounded bg-white">
          {data.map((v, i) => (
            <g key={i}>
              <rect x={i * 60 + 10} y={200 - v * 6} width={40} height={v * 6} fill="#fb923c" />
              <text x={i * 60 + 30} y={190} textAnchor="middle" fill="#7c2d12">{v}</text>
              <text x={i * 60 + 32} y={188} textAnchor="middle" fill="#fff" opacity={0.4}>{v}</text>
            </g>
          ))}
        </svg>
      </div>
    </main>
  )
}
