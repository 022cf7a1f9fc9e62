// expect: PAGE_ERROR 5
const icons: Record<string, any> = {}
export default function Page() {
  const Icon = icons['home']
  return <main className="h-[720px] bg-white p-16"><Icon /></main>
}
