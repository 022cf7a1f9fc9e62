/**
 * An author's source as text with places: offsets become lines and columns, places become code frames (V8).
 */

const FRAME_LINES_AROUND = 2
const FRAME_COLUMNS_MAX = 140

export class Source {
  #starts

  constructor(path, text) {
    this.path = path
    this.text = text
  }

  /** Line and column, both from 1, of an offset in UTF-16 units. */
  at(offset) {
    const starts = this.#lineStarts()
    const bounded = Math.max(0, Math.min(offset, this.text.length))
    let low = 0
    let high = starts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (starts[middle] <= bounded) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: bounded - starts[low] + 1 }
  }

  /** The offset of a line and column, both from 1. */
  offsetOf(line, column = 1) {
    const starts = this.#lineStarts()
    return (starts[Math.max(0, Math.min(line, starts.length) - 1)] ?? 0) + Math.max(0, column - 1)
  }

  /** Up to five lines around a place, with a marker; long lines are cut around the column. */
  frame(line, column = 1) {
    const starts = this.#lineStarts()
    if (line < 1 || line > starts.length) return null
    const first = Math.max(1, line - FRAME_LINES_AROUND)
    const last = Math.min(starts.length, line + FRAME_LINES_AROUND)
    const from = column > FRAME_COLUMNS_MAX - 20 ? column - 40 : 0
    const width = String(last).length
    const shown = []
    for (let number = first; number <= last; number++) {
      const text = this.text.slice(starts[number - 1], starts[number] ?? this.text.length).replace(/\r?\n$/, '')
      const mark = number === line ? '>' : ' '
      shown.push(`${mark} ${String(number).padStart(width)} | ${text.slice(from, from + FRAME_COLUMNS_MAX)}`.trimEnd())
      if (number === line) shown.push(`  ${' '.repeat(width)} | ${' '.repeat(Math.max(0, column - 1 - from))}^`)
    }
    return shown.join('\n')
  }

  #lineStarts() {
    if (this.#starts) return this.#starts
    const starts = [0]
    for (let index = this.text.indexOf('\n'); index !== -1; index = this.text.indexOf('\n', index + 1)) {
      starts.push(index + 1)
    }
    return (this.#starts = starts)
  }
}
