// The host around a previewed page: one page at a time (deck.js), and around it the list of pages, the speaker notes and the full screen.
import { deck, decoded } from './deck.js'

const GAP = 24
const pages = JSON.parse(document.getElementById('deck').textContent)
const at = (id) => document.getElementById(id)
const [main, frame, list, notes] = [at('main'), at('frame'), at('list'), at('notes')]

const placeInAddress = () => pages.findIndex((page) => page.code === decoded(location.hash.slice(1)))

const { show, fit } = deck({
  pages,
  placeInAddress,
  address: (page) => `#${encodeURIComponent(page.code)}`,
  gap: () => (document.body.classList.contains('alone') ? 0 : Math.min(GAP, main.clientWidth / 40)),
  shown: (page, index) => {
    const title = page.title || page.code
    document.title = `${title} · ${index + 1}/${pages.length}`
    at('title').textContent = title
    at('spoken').textContent = `Page ${index + 1} of ${pages.length}: ${title}`
    at('text').textContent = page.speaker_notes || 'This page has no speaker notes.'
    at('text').classList.toggle('none', !page.speaker_notes)
    if (!list.hidden) list.querySelector('[aria-current]').scrollIntoView({ block: 'nearest' })
  },
  open: (iframe, page, index) => {
    iframe.setAttribute('sandbox', 'allow-scripts')
    iframe.setAttribute('referrerpolicy', 'no-referrer')
    iframe.src = `pages/${page.part}/`
    frame.setAttribute('aria-busy', 'true')
    iframe.addEventListener('load', () => {
      if (!iframe.isConnected) return // somebody has turned the page meanwhile
      frame.setAttribute('aria-busy', 'false')
      warm(pages[index + 1])
    })
  },
  actions: {
    l: () => toggle(list, at('pages')),
    n: () => toggle(notes, at('speaker')),
    f: () => alone(),
    Escape: () => {
      toggle(list, at('pages'), false)
      toggle(notes, at('speaker'), false)
    },
  },
})

/** The page after this one is compiled while somebody looks at this one. */
function warm(page) {
  if (!page || page.warm) return
  page.warm = true
  fetch(`pages/${page.part}/`, { referrerPolicy: 'no-referrer' }).catch(() => {})
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

document.addEventListener('fullscreenchange', () => {
  document.body.classList.toggle('alone', Boolean(document.fullscreenElement))
  fit()
})
at('pages').addEventListener('click', () => toggle(list, at('pages')))
at('speaker').addEventListener('click', () => toggle(notes, at('speaker')))
at('full').addEventListener('click', () => alone())
list.addEventListener('click', (event) => {
  const link = event.target.closest('a')
  if (!link) return
  event.preventDefault()
  show([...list.querySelectorAll('a')].indexOf(link))
  if (matchMedia('(max-width: 720px)').matches) toggle(list, at('pages'), false)
})

const wanted = placeInAddress()
show(wanted === -1 ? Math.max(0, pages.findIndex((page) => page.part === '0')) : wanted, { remember: false })
