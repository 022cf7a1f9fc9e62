export default {
  name: 'Slide',
  children: true,
  props: {
    title: { kind: 'text' },
    kicker: { kind: 'text' },
    footer: { kind: 'text' },
    page: { kind: 'text' },
    align: { kind: 'text', choices: ['top', 'center'], fallback: 'top' },
  },
  render({ title, kicker, footer, page, align }, el, children) {
    const head = kicker || title ? el('header', { class: 'kit-slide-head' }, kicker ? el('p', { class: 'kit-slide-kicker' }, kicker) : null, title ? el('h1', { class: 'kit-slide-title' }, title) : null) : null
    const foot = footer || page ? el('footer', { class: 'kit-slide-foot' }, el('span', null, footer ?? ''), page ? el('span', null, page) : null) : null
    return el('section', { class: 'kit-slide' }, head, el('div', { class: `kit-slide-body kit-slide-${align}` }, children), foot)
  },
}
