// The host of a built site: one page at a time (deck.js), and an address that is true, by hash or by clean routes.
import { deck, decoded } from './deck.js'

const site = JSON.parse(document.getElementById('data').textContent)
const { pages } = site
const at = (id) => document.getElementById(id)
const list = at('list')
/** Where the site is in the address bar; its files may be elsewhere (`<base>`), where they never change. */
const root = new URL(site.depth ? '../' : './', location.href.replace(/[?#].*$/s, ''))
const files = new URL(site.depth ? '../' : './', document.baseURI)

function placeInAddress() {
  if (!site.clean) return pages.findIndex((page) => page.code === decoded(location.hash.slice(1)))
  const path = decoded(location.pathname)
  return pages.findIndex((page) => path === decoded(new URL(page.route, root).pathname))
}

function toggle(wanted = list.hidden) {
  list.hidden = !wanted
  at('pages').setAttribute('aria-expanded', String(wanted))
}

const { show } = deck({
  pages,
  placeInAddress,
  address: (page) => new URL(page.route, site.clean ? root : location.href),
  shown: (page) => {
    document.title = `${page.title || page.code} · ${site.name}`
  },
  open: (iframe, page) => {
    iframe.src = new URL(`pages/${page.number}/`, files)
  },
  actions: { l: () => toggle(), Escape: () => toggle(false) },
})

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
