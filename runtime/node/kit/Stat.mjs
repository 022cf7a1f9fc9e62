import { withUnit, written } from './numbers.mjs'

export default {
  name: 'Stat',
  props: {
    value: { kind: 'text', required: true },
    label: { kind: 'text', required: true },
    unit: { kind: 'text', fallback: '' },
    change: { kind: 'text' },
    tone: { kind: 'text', choices: ['good', 'bad', 'neutral'] },
  },
  render({ value, label, unit, change, tone }, el) {
    const shown = /^-?\d+(\.\d+)?$/.test(value) ? written(Number(value), unit) : withUnit(value, unit)
    const meant = tone ?? (/^\s*[-−–]/.test(change ?? '') ? 'bad' : /^\s*\+/.test(change ?? '') ? 'good' : 'neutral')
    return el('div', { class: 'kit-stat' }, el('p', { class: 'kit-stat-value' }, shown), el('p', { class: 'kit-stat-label' }, label), change ? el('p', { class: `kit-stat-change kit-stat-${meant}` }, change) : null)
  },
}
