import { COLOURS, marks, written } from './numbers.mjs'

const LABELS_SHOWN_MAX = 12
const DOTS_MAX = 16

export default {
  name: 'Line',
  props: {
    series: { kind: 'list', required: true, like: '[{ label: "Visits", values: [3, 5, 8] }]' },
    labels: { kind: 'list', fallback: [] },
    unit: { kind: 'text', fallback: '' },
    height: { kind: 'number', fallback: 280 },
    min: { kind: 'number' },
    max: { kind: 'number' },
  },
  check({ series, labels }, refuse) {
    if (!series.length) refuse('needs at least one of "series".')
    const at = series.findIndex((line) => !Array.isArray(line?.values) || !line.values.length || !line.values.every((value) => value === null || Number.isFinite(value)))
    if (at !== -1) refuse(`needs each of its "series" to have values: numbers, or null for a gap; series[${at}] has not.`)
    const points = Math.max(...series.map((line) => line.values.length))
    if (labels.length && labels.length !== points) refuse(`has ${labels.length} labels for ${points} values: give one for each.`)
  },
  render({ series, labels, unit, height, min, max }, el) {
    const values = series.flatMap((line) => line.values).filter((value) => value !== null)
    const count = Math.max(...series.map((line) => line.values.length))
    const least = Math.min(min ?? 0, ...values)
    const ticks = marks(least, Math.max(max ?? least, ...values))
    const [low, high] = [ticks[0], ticks.at(-1)]
    const x = (i) => Math.round(((i + 0.5) / count) * 10_000) / 10
    const y = (value) => Math.round((1 - (value - low) / (high - low)) * 10_000) / 10
    const named = series.filter((line) => line.label)
    const legend = named.length ? el('figcaption', { class: 'kit-line-legend' }, ...named.map((line) => el('span', { class: 'kit-line-name' }, el('i', { class: 'kit-line-swatch', style: { background: colour(line, series.indexOf(line)) } }), line.label))) : null
    const scale = el('div', { class: 'kit-line-y', 'aria-hidden': 'true' }, ...ticks.map((tick) => el('span', null, written(tick, unit))))
    const ground = ticks.map((tick) => el('path', { d: `M0 ${y(tick)}H1000`, class: tick === 0 || tick === low ? 'kit-line-base' : 'kit-line-mark', 'vector-effect': 'non-scaling-stroke' }))
    const drawn = series.map((line, i) => el('path', { d: path(line.values, x, y), class: 'kit-line-path', stroke: colour(line, i), 'vector-effect': 'non-scaling-stroke' }))
    // The drawing is stretched, so a dot is the round end of a line without a length.
    const dots = count > DOTS_MAX ? [] : series.map((line, i) => el('path', { d: line.values.map((value, at) => (value === null ? '' : `M${x(at)} ${y(value)}h0`)).join(''), class: 'kit-line-dot', stroke: colour(line, i), 'vector-effect': 'non-scaling-stroke' }))
    const plot = el('svg', { class: 'kit-line-plot', viewBox: '0 0 1000 1000', preserveAspectRatio: 'none', role: 'img', 'aria-label': said(series, labels, unit) }, ...ground, ...drawn, ...dots)
    const every = Math.ceil(labels.length / LABELS_SHOWN_MAX)
    const axis = labels.length ? el('div', { class: 'kit-line-x', 'aria-hidden': 'true' }, ...labels.map((label, i) => el('span', null, i % every ? '' : el('b', null, String(label))))) : null
    return el('figure', { class: 'kit-line', style: { height: `${height}px` } }, legend, scale, plot, axis)
  },
}

const colour = (line, i) => line.color ?? COLOURS[i % COLOURS.length]

/** A gap lifts the pen. */
function path(values, x, y) {
  let pen = 'M'
  let drawn = ''
  for (const [i, value] of values.entries()) {
    if (value !== null) drawn += `${pen}${x(i)} ${y(value)}`
    pen = value === null ? 'M' : 'L'
  }
  return drawn
}

/** The drawing in words, for who hears the page. */
function said(series, labels, unit) {
  return series.map((line) => `${line.label ?? 'values'}: ${line.values.map((value, i) => [labels[i], value === null ? '–' : written(value, unit)].filter(Boolean).join(' ')).join(', ')}`).join('; ')
}
