import { written } from './numbers.mjs'

export default {
  name: 'Table',
  props: {
    columns: { kind: 'list', required: true, like: '["Region", { key: "sold", label: "Sold", align: "right" }]' },
    rows: { kind: 'list', required: true, like: '[{ Region: "North", sold: 42 }]' },
    caption: { kind: 'text' },
  },
  check({ columns, rows }, refuse) {
    if (!columns.length) refuse('needs at least one of "columns".')
    const at = columns.findIndex((column) => typeof column !== 'string' && typeof column?.key !== 'string')
    if (at !== -1) refuse(`needs each of its "columns" to be a text or to have a key; columns[${at}] is neither.`)
    const row = rows.findIndex((each) => each === null || typeof each !== 'object')
    if (row !== -1) refuse(`needs each of its "rows" to be an object or a list; rows[${row}] is not.`)
    const keys = columns.map((column) => column.key ?? column)
    const lost = keys.find((key) => rows.length && rows.every((each) => !Array.isArray(each) && !(key in each)))
    if (lost !== undefined) refuse(`has a column "${lost}" that no row has a value for; the rows have ${Object.keys(rows[0]).join(', ')}.`)
  },
  render({ columns, rows, caption }, el) {
    const cells = columns.map((column, i) => {
      const { key, label = key, align } = typeof column === 'string' ? { key: column } : column
      const values = rows.map((row) => (Array.isArray(row) ? row[i] : row[key]) ?? '')
      const numbers = values.length > 0 && values.every((value) => typeof value === 'number' || value === '')
      return { label, values, align: ['left', 'center', 'right'].includes(align) ? align : numbers ? 'right' : 'left' }
    })
    const shown = (value) => (typeof value === 'number' ? written(value) : String(value))
    return el(
      'table',
      { class: 'kit-table' },
      caption ? el('caption', null, caption) : null,
      el('thead', null, el('tr', null, ...cells.map(({ label, align }) => el('th', { scope: 'col', class: `kit-${align}` }, label)))),
      el('tbody', null, ...rows.map((_, r) => el('tr', null, ...cells.map(({ values, align }) => el('td', { class: `kit-${align}` }, shown(values[r])))))),
    )
  },
}
