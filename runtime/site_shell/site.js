// The host of a built site: shows one page at a time, fitted into the window, and keeps the address true, by hash or by clean
// routes. What the page itself says is believed only as far as keys and its height.
const HEIGHT_MAX = 30000
const site = JSON.parse(document.getElementById('data').textContent)
const { pages } = site
const at = (id) => document.getElementById(id)
const [main, frame, list] = [at('main'), at('frame'), at('list')]
/** Where the site is in the address bar; its files may be elsewhere (`<base>`), where they never change. */
const root = new URL(site.depth ? '../' : './', location.href.replace(/[?#].*$/s, ''))
const files = new URL(site.depth ? '../' : './', document.baseURI)

let current = -1
let iframe
let ownHeight = 0

const decoded = (text) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
function placeInAddress() {
  if (!site.clean) return pages.findIndex((page) => page.code === decoded(location.hash.slice(1)))
  const path = decoded(location.pathname)
  return pages.findIndex((page) => path === decoded(new URL(page.route, root).pathname))
}

function show(next, { remember = true } = {}) {
  if (next < 0 || next >= pages.length || next === current) return
  current = next
  const page = pages[next]
  document.title = `${page.title || page.code} · ${site.name}`
  at('place').textContent = `${next + 1} / ${pages.length}`
  at('previous').disabled = next === 0
  at('next').disabled = next === pages.length - 1
  for (const [index, link] of [...list.querySelectorAll('a')].entries()) {
    if (index === next) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  if (remember) history.pushState(null, '', new URL(page.route, site.clean ? root : location.href))
  ownHeight = 0
  const fresh = document.createElement('iframe')
  fresh.title = page.title || page.code
  fresh.src = new URL(`pages/${page.number}/`, files)
  iframe = fresh
  frame.replaceChildren(fresh)
  fit()
}

function fit() {
  if (!iframe) return
  const { width_px: width, height_px: fixed } = pages[current].canvas
  const room = { width: main.clientWidth, height: main.clientHeight }
  const height = fixed ?? Math.min(HEIGHT_MAX, Math.max(ownHeight, room.height * (width / room.width)))
  const scale = Math.max(0.05, fixed ? Math.min(room.width / width, room.height / height) : Math.min(1.5, room.width / width))
  iframe.width = width
  iframe.height = Math.ceil(height)
  iframe.style.transform = `scale(${scale})`
  frame.style.width = `${Math.round(width * scale)}px`
  frame.style.height = `${Math.round(height * scale)}px`
  frame.style.left = `${Math.max(0, Math.round((room.width - width * scale) / 2))}px`
  frame.style.top = `${Math.max(0, Math.round((room.height - height * scale) / 2))}px`
}

function toggle(wanted = list.hidden) {
  list.hidden = !wanted
  at('pages').setAttribute('aria-expanded', String(wanted))
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
  l: () => toggle(),
  Escape: () => toggle(false),
}
/** A page that decides its own height is read by scrolling: these keys are then its own. */
const SCROLLING = new Set(['ArrowUp', 'ArrowDown', 'PageUp', 'PageDown'])

function press(key) {
  if (!Object.hasOwn(actions, key)) return false
  if (SCROLLING.has(key) && pages[current].canvas.height_px === null) {
    main.scrollBy({ top: (key.endsWith('Down') ? 1 : -1) * (key.startsWith('Page') ? main.clientHeight * 0.9 : 80) })
  } else actions[key]()
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
const follow = () => show(Math.max(0, placeInAddress()), { remember: false })
addEventListener('popstate', follow)
addEventListener('hashchange', follow)
new ResizeObserver(fit).observe(main)
at('previous').addEventListener('click', () => show(current - 1))
at('next').addEventListener('click', () => show(current + 1))
at('pages').addEventListener('click', () => toggle())
list.addEventListener('click', (event) => {
  const link = event.target.closest('a')
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  show([...list.querySelectorAll('a')].indexOf(link))
  toggle(false)
})

const wanted = placeInAddress()
show(wanted === -1 ? (site.shown ?? 0) : wanted, { remember: false })
