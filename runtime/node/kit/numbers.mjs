/** Numbers as the page's language writes them, and the scales of charts. */

/** The page's whole text is in one language: the document names it. */
export function written(value, unit = '') {
  return withUnit(new Intl.NumberFormat(document.documentElement.lang || 'en', { maximumFractionDigits: 2 }).format(value), unit)
}

/** A unit in letters stands apart, a percent sign a little, anything else (°, €, 万) not at all. */
export function withUnit(text, unit) {
  const space = unit === '%' ? '\u202f' : /^[A-Za-z]/.test(unit) ? '\u00a0' : ''
  return text + space + unit
}

/** Round marks from at most `low` to at least `high`, about five. */
export function marks(low, high) {
  const span = high - low || Math.abs(high) || 1
  const rough = span / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999)
  const first = Math.floor(low / step + 1e-9)
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9))
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

export const COLOURS = ['var(--kit-accent, #2563eb)', 'var(--kit-2, #d97706)', 'var(--kit-3, #0d9488)', 'var(--kit-4, #db2777)', 'var(--kit-5, #7c3aed)', 'var(--kit-6, #64748b)']
