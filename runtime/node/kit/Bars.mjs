import { COLOURS, written } from './numbers.mjs'

export default {
  name: 'Bars',
  props: {
    rows: { kind: 'list', required: true, like: '[{ label: "North", value: 42 }]' },
    unit: { kind: 'text', fallback: '' },
    max: { kind: 'number' },
  },
  check({ rows }, refuse) {
    const at = rows.findIndex((row) => typeof row?.label !== 'string' || !Number.isFinite(row?.value))
    if (at !== -1) refuse(`needs each of its "rows" to have a label (a text) and a value (a number); rows[${at}] has not.`)
  },
  render({ rows, unit, max }, el) {
    const values = rows.map((row) => row.value)
    const low = Math.min(0, ...values)
    const high = Math.max(0, ...values, max ?? 0)
    const share = (value) => (value / (high - low || 1)) * 100
    const percent = (number) => `${Math.round(number * 100) / 100}%`
    const bar = ({ label, value, color }) => [
      el('dt', { class: 'kit-bars-label' }, label),
      el('dd', { class: 'kit-bars-track', 'aria-hidden': 'true' }, el('div', { class: 'kit-bars-bar', style: { left: percent(share(Math.min(0, value) - low)), width: percent(share(Math.abs(value))), background: color ?? COLOURS[0] } })),
      el('dd', { class: 'kit-bars-value' }, written(value, unit)),
    ]
    return el('dl', { class: 'kit-bars' }, ...rows.flatMap(bar))
  },
}
