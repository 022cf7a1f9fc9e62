// The host around a previewed page: turns pages, fits the canvas into the window, shows list and notes. The page itself is untrusted
// and lives in a sandboxed frame; all that is taken from it are the messages of keys.js.
const HEIGHT_MAX = 30000
const GAP = 24

const pages = JSON.parse(document.getElementById('deck').textContent)
const at = (id) => document.getElementById(id)
const [main, frame, list, notes] = [at('main'), at('frame'), at('list'), at('notes')]

let current = -1
let iframe
let ownHeight = 0

const place = (code) => pages.findIndex((page) => page.code === code)
const codeInAddress = () => {
  try {
    return decodeURIComponent(location.hash.slice(1))
  } catch {
    return ''
  }
}

function show(next, { remember = true } = {}) {
  if (next < 0 || next >= pages.length || next === current) return
  current = next
  const page = pages[next]
  document.title = `${page.title || page.code} · ${next + 1}/${pages.length}`
  at('title').textContent = page.title || page.code
  at('place').textContent = `${next + 1} / ${pages.length}`
  at('spoken').textContent = `Page ${next + 1} of ${pages.length}: ${page.title || page.code}`
  at('text').textContent = page.speaker_notes || 'This page has no speaker notes.'
  at('text').classList.toggle('none', !page.speaker_notes)
  at('previous').disabled = next === 0
  at('next').disabled = next === pages.length - 1
  for (const [index, link] of [...list.querySelectorAll('a')].entries()) {
    if (index === next) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  if (!list.hidden) list.querySelector('[aria-current]').scrollIntoView({ block: 'nearest' })
  if (remember) history.pushState(null, '', `#${encodeURIComponent(page.code)}`)
  load(page)
}

function load(page) {
  ownHeight = 0
  const fresh = document.createElement('iframe')
  fresh.setAttribute('sandbox', 'allow-scripts')
  fresh.setAttribute('referrerpolicy', 'no-referrer')
  fresh.title = page.title || page.code
  fresh.src = `pages/${page.part}/`
  frame.setAttribute('aria-busy', 'true')
  const ready = () => {
    if (iframe === fresh) frame.setAttribute('aria-busy', 'false')
  }
  fresh.addEventListener('load', () => {
    ready()
    warm(pages[current + 1])
  })
  iframe = fresh
  frame.replaceChildren(fresh)
  fit()
}

/** The page after this one is compiled while somebody looks at this one. */
function warm(page) {
  if (!page || page.warm) return
  page.warm = true
  fetch(`pages/${page.part}/`, { referrerPolicy: 'no-referrer' }).catch(() => {})
}

function fit() {
  if (!iframe) return
  const { width_px: width, height_px: fixed } = pages[current].canvas
  const gap = document.body.classList.contains('alone') ? 0 : Math.min(GAP, main.clientWidth / 40)
  const room = { width: main.clientWidth - 2 * gap, height: main.clientHeight - 2 * gap }
  const height = fixed ?? Math.min(HEIGHT_MAX, Math.max(ownHeight, room.height * (width / room.width)))
  const scale = Math.max(0.05, fixed ? Math.min(room.width / width, room.height / height) : Math.min(1.5, room.width / width))
  iframe.width = width
  iframe.height = Math.ceil(height)
  iframe.style.transform = `scale(${scale})`
  const shown = { width: Math.round(width * scale), height: Math.round(height * scale) }
  frame.style.width = `${shown.width}px`
  frame.style.height = `${shown.height}px`
  frame.style.left = `${Math.max(gap, Math.round((main.clientWidth - shown.width) / 2))}px`
  frame.style.top = `${Math.max(gap, Math.round((main.clientHeight - shown.height) / 2))}px`
}

function toggle(panel, button, wanted = panel.hidden) {
  panel.hidden = !wanted
  button.setAttribute('aria-expanded', String(wanted))
  fit()
}

function alone(wanted = !document.fullscreenElement) {
  if (wanted) document.documentElement.requestFullscreen?.().catch(() => {})
  else document.exitFullscreen?.().catch(() => {})
}

const actions = {
  ArrowRight: () => show(current + 1),
  ArrowLeft: () => show(current - 1),
  ArrowDown: () => show(current + 1),
  ArrowUp: () => show(current - 1),
  PageDown: () => show(current + 1),
  PageUp: () => show(current - 1),
  Home: () => show(0),
  End: () => show(pages.length - 1),
  l: () => toggle(list, at('pages')),
  n: () => toggle(notes, at('speaker')),
  f: () => alone(),
  Escape: () => {
    toggle(list, at('pages'), false)
    toggle(notes, at('speaker'), false)
  },
}
/** A page that decides its own height is read by scrolling: these keys are then its own. */
const SCROLLING = new Set(['ArrowUp', 'ArrowDown', 'PageUp', 'PageDown'])

function press(key) {
  if (!Object.hasOwn(actions, key)) return false
  if (SCROLLING.has(key) && pages[current].canvas.height_px === null) {
    main.scrollBy({ top: (key.endsWith('Down') ? 1 : -1) * (key.startsWith('Page') ? main.clientHeight * 0.9 : 80) })
    return true
  }
  actions[key]()
  return true
}

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return
  if (press(event.key)) event.preventDefault()
})
addEventListener('message', (event) => {
  if (!iframe || event.source !== iframe.contentWindow) return
  const said = event.data?.pagegate
  if (typeof said?.key === 'string') press(said.key)
  else if (Number.isFinite(said?.height) && Math.abs(said.height - ownHeight) > 1) {
    ownHeight = said.height
    if (pages[current].canvas.height_px === null) fit()
  }
})
addEventListener('popstate', () => show(Math.max(0, place(codeInAddress())), { remember: false }))
addEventListener('hashchange', () => show(Math.max(0, place(codeInAddress())), { remember: false }))
document.addEventListener('fullscreenchange', () => {
  document.body.classList.toggle('alone', Boolean(document.fullscreenElement))
  fit()
})
new ResizeObserver(fit).observe(main)

at('previous').addEventListener('click', () => show(current - 1))
at('next').addEventListener('click', () => show(current + 1))
at('pages').addEventListener('click', () => toggle(list, at('pages')))
at('speaker').addEventListener('click', () => toggle(notes, at('speaker')))
at('full').addEventListener('click', () => alone())
list.addEventListener('click', (event) => {
  const link = event.target.closest('a')
  if (!link) return
  event.preventDefault()
  show(place(decodeURIComponent(link.hash.slice(1))))
  if (matchMedia('(max-width: 720px)').matches) toggle(list, at('pages'), false)
})

const wanted = place(codeInAddress())
show(wanted === -1 ? Math.max(0, pages.findIndex((page) => page.part === '0')) : wanted, { remember: false })
