/**
 * Visual edit (V9): lists what a person may change in a page by pointing at it, and changes exactly that in the source.
 *
 * An edit replaces its own range and no other byte: line ends, tabs, comments and quotes around it stay as they are. What
 * was changed is read again before it is answered; unless the page then shows the new values and nothing else is
 * different, nothing is changed.
 */
import { createHash } from 'node:crypto'
import { refusal } from '../errors.mjs'
import { inspect } from '../inspect.mjs'
import { Source } from '../source.mjs'
import { Task } from '../task.mjs'
import { listReact } from './editable_react.mjs'
import { listVue } from './editable_vue.mjs'
import { NODES_MAX, TooManyNodes } from './listing.mjs'
import { PLACES, newlineOf } from './values.mjs'

const EDITS_MAX = 200
const VALUE_CHARS_MAX = 100_000
/** What makes a source unreadable; what it may import or hold is the gate's business. */
const UNREADABLE = /^PAGE_(?:SOURCE_(?:EMPTY|FENCED|TOO_LARGE)|TEMPLATE_SYNTAX|SCRIPT_SYNTAX|STYLE_SYNTAX)$/

/** Ends the work with one error for the caller; an edit's error begins with the id of its node. */
class Refused extends Error {
  constructor(code, message, { node, ...rest } = {}) {
    super(message)
    this.error = { ...refusal(code, node ? `${node}: ${message}` : message, rest), ...rest.place }
  }
}

/**
 * The tool: `{action: "list", path, source}` or `{action: "apply", path, source, source_sha256, edits}`. `path` is logical, and
 * its ending says what the source is.
 */
export function visualEdit({ input }) {
  const { action, path, source, source_sha256, edits } = input
  const page = typeof source === 'string' && /^(?:pages|components)\/[^/\\\0]+\.(?:vue|tsx)$/.test(path)
  return answered(() => {
    if (action === 'list' && page) return listEditables({ path, source })
    if (action === 'apply' && page && Array.isArray(edits) && edits.every(isEdit)) return applyEdits({ path, source, source_sha256, edits })
    throw new Refused('VISUAL_EDIT_INVALID', 'This is no order that the tool knows.')
  })
}

const isEdit = (edit) => typeof edit?.node === 'string' && (typeof edit.value === 'string' || edit.value === null)

/** `{language, source_sha256, nodes}`. */
function listEditables({ path, source }) {
  const listing = list(path, source)
  return { language: listing.language, source_sha256: sha256(source), nodes: listing.nodes.map(({ node }) => node) }
}

/**
 * `{source, source_sha256, splices}`. An edit is `{node, value}`, with `value: null` to remove an attribute, and optionally the
 * `range` it was made for and `all_repetitions`. All edits apply, or none does.
 */
function applyEdits({ path, source, source_sha256: expected, edits }) {
  if (sha256(source) !== expected) throw new Refused('VISUAL_EDIT_STALE', 'The page is not the one that the edits were made for.')
  if (edits.length > EDITS_MAX) {
    throw new Refused('VISUAL_EDIT_TOO_LARGE', `${edits.length} edits at once; ${EDITS_MAX} are the limit.`, { hint: 'Send fewer at a time.' })
  }
  const listing = list(path, source)
  const known = new Map(listing.nodes.map((entry) => [entry.node.id, entry]))
  const planned = edits.map((edit) => plan(edit, known, source))
  const splices = ordered(planned)
  const changed = spliced(source, splices)
  prove(path, changed, listing, planned)
  return { source: changed, source_sha256: sha256(changed), splices: splices.map(({ start, end, text }) => ({ start, end, text })) }
}

function answered(work) {
  try {
    return { result: work() }
  } catch (error) {
    if (error instanceof Refused) return { errors: [error.error] }
    if (error instanceof TooManyNodes) return { errors: [refusal('VISUAL_EDIT_TOO_LARGE', `The page has more than ${NODES_MAX} editable nodes.`)] }
    if (error instanceof RangeError) return { errors: [refusal('VISUAL_EDIT_TOO_LARGE', 'The page is nested too deeply.')] }
    throw error
  }
}

const sha256 = (text) => createHash('sha256').update(text).digest('hex')

function list(path, text) {
  const error = unreadable(path, text)
  if (error) throw new Refused('VISUAL_EDIT_SOURCE_UNREADABLE', error.message, { place: placeOf(error) })
  const source = new Source(path, text)
  return path.endsWith('.vue') ? listVue(source) : listReact(source)
}

const placeOf = ({ file, line, column, frame }) => ({ file, line, column, frame })

/** The first thing that the gate would say about the syntax of this source, or null. */
function unreadable(path, text) {
  const page = { code: 'page', title: '', speaker_notes: '' }
  const task = new Task({ dir: '/', entry: path, modules: { [path]: text }, assets: [], page, canvas: { width_px: 1280, height_px: 720 } })
  return inspect(task).errors.find(({ code }) => UNREADABLE.test(code)) ?? null
}

/** `{entry, value, splice}`; the splice is null when the value is what it was. */
function plan(edit, known, source) {
  const refuse = (code, message, hint) => {
    throw new Refused(code, message, { node: edit.node, hint })
  }
  const entry = known.get(edit.node)
  if (!entry) return refuse('VISUAL_EDIT_NODE_UNKNOWN', 'The page has no such node.')
  const { node, change } = entry
  const { start, end } = node.range
  if (edit.range && (edit.range.start !== start || edit.range.end !== end)) {
    return refuse('VISUAL_EDIT_STALE', `The node stands at ${start}-${end} now, and the edit was made for ${edit.range.start}-${edit.range.end}.`)
  }
  if (!change) return refuse('VISUAL_EDIT_NOT_EDITABLE', node.reason.message, node.reason.hint)
  if (node.reason && edit.all_repetitions !== true) return refuse('VISUAL_EDIT_NOT_EDITABLE', node.reason.message, node.reason.hint)
  if (edit.value === null) {
    if (node.value === null) return { entry, value: null, splice: null }
    if (!node.can.includes('remove')) return refuse('VISUAL_EDIT_NOT_EDITABLE', 'Only an attribute can be removed.', 'Send an empty value to clear a text.')
    const [from, to] = change.remove
    return { entry, value: null, splice: { start: from, end: to, text: '' } }
  }
  const value = valueFor(node, change, edit.value, refuse)
  if (value === node.value) return { entry, value, splice: null }
  const written = PLACES[change.place].write(value, { quote: change.quote, newline: newlineOf(source) })
  return { entry, value, splice: { start, end, text: `${change.before ?? ''}${written}${change.after ?? ''}` } }
}

function valueFor(node, change, given, refuse) {
  if (given.length > VALUE_CHARS_MAX) refuse('VISUAL_EDIT_VALUE_INVALID', `The value has ${given.length} characters; ${VALUE_CHARS_MAX} are the limit.`)
  if (/[\0-\x08\x0b\x0e-\x1f\x7f]/.test(given) || !given.isWellFormed()) {
    refuse('VISUAL_EDIT_VALUE_INVALID', 'The value holds a control character or half of a character.')
  }
  const lines = given.replace(/\r\n?/g, '\n')
  if (lines === node.value || node.kind !== 'text') return lines
  const whole = change.keepsSpace || change.place.startsWith('js-')
  const value = whole ? lines : lines.replace(/^[ \t\n\f]+|[ \t\n\f]+$/g, '') // the space around a text is layout, and stays
  if (!value.trim() && !node.can.includes('clear')) {
    refuse('VISUAL_EDIT_VALUE_INVALID', 'This text stands beside other content and cannot be emptied here.', 'Take it out of the source, with apply_page_edits.')
  }
  return value
}

function ordered(planned) {
  const nodes = new Set()
  for (const { entry } of planned) {
    if (nodes.has(entry)) throw new Refused('VISUAL_EDIT_OVERLAP', 'Two edits change the same node.', { node: entry.node.id })
    nodes.add(entry)
  }
  const splices = planned.filter(({ splice }) => splice).map(({ entry, splice }) => ({ ...splice, node: entry.node.id }))
  splices.sort((a, b) => a.start - b.start || a.end - b.end)
  for (let index = 1; index < splices.length; index++) {
    if (splices[index].start < splices[index - 1].end) {
      throw new Refused('VISUAL_EDIT_OVERLAP', 'Two edits change the same place.', { node: splices[index].node })
    }
  }
  return splices
}

function spliced(source, splices) {
  let text = ''
  let from = 0
  for (const splice of splices) {
    text += source.slice(from, splice.start) + splice.text
    from = splice.end
  }
  return text + source.slice(from)
}

/** The changed page is read again: the same nodes, the new values, nothing else. */
function prove(path, changed, before, planned) {
  const broken = (message, node = null) => {
    throw new Refused('VISUAL_EDIT_BREAKS_PAGE', message, { node })
  }
  const error = unreadable(path, changed)
  if (error) throw new Refused('VISUAL_EDIT_BREAKS_PAGE', `The page could not be read any more: ${error.message}`, { place: placeOf(error) })
  const expected = new Map(before.nodes.map(({ node }) => [node.id, node.value]))
  for (const { entry, value } of planned) expected.set(entry.node.id, value)
  for (const { node } of list(path, changed).nodes) {
    if (!expected.has(node.id)) broken('The edit would add something to the page.', node.id)
    if (expected.get(node.id) !== node.value) broken('The edit would not show as it was written.', node.id)
    expected.delete(node.id)
  }
  for (const [id, value] of expected) if (value !== null) broken('The edit would take something else away.', id)
}
