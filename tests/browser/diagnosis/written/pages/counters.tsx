// Numbers that count up in frames, rings that fill by a transition, a heading that fades in.
import { useEffect, useState } from 'react'

function useCount(goal: number, ms: number) {
  const [n, setN] = useState(0)
  useEffect(() => {
    const start = performance.now()
    let id = 0
    const step = (now: number) => {
      const share = Math.min(1, (now - start) / ms)
      setN(Math.round(goal * share))
      if (share < 1) id = requestAnimationFrame(step)
    }
    id = requestAnimationFrame(step)
    return () => cancelAnimationFrame(id)
  }, [goal, ms])
  return n
}

function Ring({ share, label }: { share: number; label: string }) {
  const n = useCount(share, 1200)
  return (
    <figure className="flex flex-col items-center">
      <svg viewBox="0 0 120 120" className="w-56"><circle cx="60" cy="60" r="52" fill="none" stroke="#334155" strokeWidth="10" /><circle cx="60" cy="60" r="52" fill="none" stroke="#38bdf8" strokeWidth="10" strokeDasharray={`${(n / 100) * 326.7} 326.7`} transform="rotate(-90 60 60)" /><text x="60" y="68" textAnchor="middle" fontSize="24" fontWeight="700" fill="#f8fafc">{n}%</text></svg>
      <figcaption className="mt-6 text-xl text-slate-300">{label}</figcaption>
    </figure>
  )
}

export default function Counters() {
  const people = useCount(18402, 1500)
  return (
    <main className="flex h-[720px] w-[1280px] flex-col items-center justify-center bg-slate-900">
      <style>{'@keyframes rise { from { opacity: 0; transform: translateY(20px) } }'}</style>
      <h1 className="text-6xl font-bold text-white" style={{ animation: 'rise 1s ease-out both 0.2s' }}>{people.toLocaleString('en')} people took part</h1>
      <div className="mt-16 flex gap-24"><Ring share={72} label="would come again" /><Ring share={91} label="felt welcome" /><Ring share={48} label="brought a friend" /></div>
    </main>
  )
}
