// One page of several at a time, in a frame that is fitted into the window: what the host of a built site and the host of a preview
// have in common. The page is a stranger: all that is taken from it are the messages of keys.js.
const HEIGHT_MAX = 30000
/** A page that decides its own height is read by scrolling: these keys are then its own. */
const SCROLLING = new Set(['ArrowUp', 'ArrowDown', 'PageUp', 'PageDown'])

/**
 * `pages` have a code, a title and a canvas. The host says the rest: `open(iframe, page)` gives a frame its address,
 * `shown(page, index)` changes the words around it, `address(page)` is where a page is in the address bar and `placeInAddress()` which
 * one is there, -1 for none; `gap()` is left free around the page; `actions` are its own keys.
 */
export function deck({ pages, open, shown, address, placeInAddress, gap = () => 0, actions = {} }) {
  const at = (id) => document.getElementById(id)
  const [main, frame, list] = [at('main'), at('frame'), at('list')]
  let current = -1
  let iframe
  let ownHeight = 0

  function show(next, { remember = true } = {}) {
    if (next < 0 || next >= pages.length || next === current) return
    current = next
    const page = pages[next]
    at('place').textContent = `${next + 1} / ${pages.length}`
    at('previous').disabled = next === 0
    at('next').disabled = next === pages.length - 1
    for (const [index, link] of [...list.querySelectorAll('a')].entries()) {
      if (index === next) link.setAttribute('aria-current', 'page')
      else link.removeAttribute('aria-current')
    }
    shown(page, next)
    if (remember) history.pushState(null, '', address(page))
    ownHeight = 0
    iframe = document.createElement('iframe')
    iframe.title = page.title || page.code
    open(iframe, page, next)
    frame.replaceChildren(iframe)
    fit()
  }

  function fit() {
    if (!iframe) return
    const { width_px: width, height_px: fixed } = pages[current].canvas
    const free = gap()
    const room = { width: main.clientWidth - 2 * free, height: main.clientHeight - 2 * free }
    const height = fixed ?? Math.min(HEIGHT_MAX, Math.max(ownHeight, room.height * (width / room.width)))
    const scale = Math.max(0.05, fixed ? Math.min(room.width / width, room.height / height) : Math.min(1.5, room.width / width))
    iframe.width = width
    iframe.height = Math.ceil(height)
    iframe.style.transform = `scale(${scale})`
    const size = { width: Math.round(width * scale), height: Math.round(height * scale) }
    frame.style.width = `${size.width}px`
    frame.style.height = `${size.height}px`
    frame.style.left = `${Math.max(free, Math.round((main.clientWidth - size.width) / 2))}px`
    frame.style.top = `${Math.max(free, Math.round((main.clientHeight - size.height) / 2))}px`
  }

  const keys = {
    ArrowRight: () => show(current + 1),
    ArrowLeft: () => show(current - 1),
    ArrowDown: () => show(current + 1),
    ArrowUp: () => show(current - 1),
    PageDown: () => show(current + 1),
    PageUp: () => show(current - 1),
    Home: () => show(0),
    End: () => show(pages.length - 1),
    ...actions,
  }

  function press(key) {
    if (!Object.hasOwn(keys, key)) return false
    if (SCROLLING.has(key) && pages[current].canvas.height_px === null) {
      main.scrollBy({ top: (key.endsWith('Down') ? 1 : -1) * (key.startsWith('Page') ? main.clientHeight * 0.9 : 80) })
    } else keys[key]()
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
  return { show, fit }
}

/** Text of an address, also when it is malformed. */
export function decoded(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
