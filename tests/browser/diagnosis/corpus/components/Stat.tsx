export default function Stat({ label, value }: { label: string; value: number }) {
  return (
    <div className="rounded-xl bg-white p-5">
      <p className="text-sm text-slate-500">{label}</p>
      <p className="text-3xl font-bold">{value}</p>
    </div>
  )
}
