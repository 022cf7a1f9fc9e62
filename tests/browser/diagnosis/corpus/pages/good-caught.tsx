// expect: nothing. It logs, warns, catches, stops for a debugger, and shows sample data instead.
import { useEffect, useState } from 'react'

export default function Page() {
  const [note, setNote] = useState('…')
  useEffect(() => {
    debugger
    console.log('mounted')
    console.info('info')
    console.debug('debug')
    console.warn('a value is old')
    try {
      JSON.parse('{')
    } catch {
      setNote('Sample data is shown.')
    }
    Promise.reject(new Error('quiet')).catch(() => undefined)
    try {
      localStorage.setItem('seen', '1')
    } catch {
      // private mode
    }
    const timer = setInterval(() => setNote((n) => n), 400)
    return () => clearInterval(timer)
  }, [])
  return (
    <main className="grid h-[720px] place-content-center gap-3 bg-white text-center">
      <h1 className="text-4xl font-bold">Forecast</h1>
      <p className="text-slate-600">{note}</p>
    </main>
  )
}
