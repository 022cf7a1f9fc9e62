// A word cloud, a mark, grades in rings, a scale whose numbers stand outside its drawing on purpose.
const words = [['gate', 64, 300, 180], ['page', 48, 520, 120], ['agent', 54, 180, 110], ['save', 40, 470, 230], ['look', 36, 160, 240], ['lease', 28, 640, 200], ['fence', 24, 330, 250]] as const
export default () => (
  <main className="h-[720px] w-[1280px] bg-amber-50 p-12">
    <svg width="120" height="40" viewBox="0 0 120 40"><rect width="40" height="40" rx="8" fill="#b45309" /><text x="20" y="28" textAnchor="middle" fontSize="24" fontWeight="900" fill="#fff">G</text><text x="50" y="28" fontSize="24" fontWeight="700" fill="#451a03">Gatey</text></svg>
    <svg viewBox="0 0 800 300" className="mt-6 h-[420px] w-full">{words.map(([w, s, x, y], i) => <text key={w} x={x} y={y} fontSize={s} fontWeight={700} textAnchor="middle" fill={['#92400e', '#b45309', '#d97706'][i % 3]}>{w}</text>)}</svg>
    <div className="flex gap-4">{['A+', 'B', 'C-'].map((g) => <svg key={g} viewBox="0 0 36 36" className="size-20"><circle cx="18" cy="18" r="16" fill="none" stroke="#fde68a" strokeWidth="3" /><circle cx="18" cy="18" r="16" fill="none" stroke="#b45309" strokeWidth="3" strokeDasharray="70 100" transform="rotate(-90 18 18)" /><text x="18" y="21" textAnchor="middle" fontSize="9" fill="#78350f">{g}</text></svg>)}
      <svg viewBox="0 0 200 80" className="h-20 overflow-visible"><line x1="0" x2="200" y1="40" y2="40" stroke="#78350f" /><text x="-6" y="44" textAnchor="end" fontSize="12" fill="#78350f">0</text><text x="206" y="44" fontSize="12" fill="#78350f">100</text><circle cx="120" cy="40" r="6" fill="#b45309" /><text x="120" y="24" textAnchor="middle" fontSize="12" fill="#78350f">60</text></svg></div>
  </main>
)
