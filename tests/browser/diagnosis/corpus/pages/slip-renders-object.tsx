// expect: PAGE_ERROR
const when = { from: '3 May', to: '9 June' }

export default function Page() {
  return <main className="h-[720px] bg-white p-16"><h1 className="text-4xl">Open {when as never}</h1></main>
}
