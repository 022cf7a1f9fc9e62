// expect: nothing. canvas: 1280xauto. A hero as high as the window, sections below, wide gamut colours.
import logo from '@assets/logo.svg'

export default function Page() {
  return (
    <div style={{ background: 'color(display-p3 0.98 0.97 0.95)', color: 'oklch(0.25 0.03 260)' }}>
      <header className="sticky top-0 z-10 flex items-center gap-4 bg-white/80 px-16 py-4 backdrop-blur">
        <img src={logo} alt="Fernpost" className="h-8" /> <nav className="ml-auto flex gap-6"><a href="#a">Product</a><a href="#b">Prices</a></nav>
      </header>
      <section className="grid min-h-screen place-items-center" style={{ background: 'linear-gradient(oklch(0.7 0.2 150), oklch(0.35 0.1 260))' }}>
        <h1 className="text-7xl font-bold text-white drop-shadow">Answer together</h1>
      </section>
      {['Inbox', 'Answers', 'Numbers'].map((s) => (
        <section key={s} className="px-16 py-32"><h2 className="text-4xl font-semibold">{s}</h2><p className="mt-4 max-w-2xl text-lg">All that comes in, in one place, for all who answer.</p></section>
      ))}
    </div>
  )
}
