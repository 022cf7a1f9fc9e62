import Icon from './Icon.mjs'

const ICONS = { info: 'info', success: 'check-circle', warning: 'warning', danger: 'cross-circle' }

export default {
  name: 'Callout',
  children: true,
  props: { tone: { kind: 'text', choices: Object.keys(ICONS), fallback: 'info' }, title: { kind: 'text' } },
  render({ tone, title }, el, children) {
    const body = el('div', { class: 'kit-callout-body' }, title ? el('p', { class: 'kit-callout-title' }, title) : null, el('div', null, children))
    return el('aside', { class: `kit-callout kit-callout-${tone}` }, Icon.render({ name: ICONS[tone], size: '1.5em' }, el), body)
  },
}
