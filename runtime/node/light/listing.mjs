/**
 * The editable nodes of one page as they are collected (V9): which there are, where, and why some may not be changed.
 *
 * Ids are paths through the page's elements, so a changed value changes no id. Offsets count UTF-16 units from 0, lines
 * and columns from 1, as in every located error.
 */
import { PLACES } from './values.mjs'

export const NODES_MAX = 20_000
const SHOWN_CHARS_MAX = 200

/** More nodes than anyone edits by hand. */
export class TooManyNodes extends Error {}

/** Attributes worth showing even when they are computed. */
export const KNOWN = new Set(['alt', 'aria-label', 'class', 'className', 'href', 'label', 'placeholder', 'poster', 'src', 'srcSet', 'srcset', 'title'])
/** An attribute of these is text, so one without a value is an empty text. */
export const TEXTS = new Set(['alt', 'aria-label', 'label', 'placeholder', 'title'])
/** Elements that are there for their text: an empty one can be filled. */
export const TEXT_ELEMENTS = new Set([
  'a', 'b', 'blockquote', 'button', 'caption', 'cite', 'code', 'dd', 'dt', 'em', 'figcaption', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'i',
  'label', 'legend', 'li', 'option', 'p', 'q', 'small', 'span', 'strong', 'summary', 'td', 'text', 'th', 'tspan',
]) // prettier-ignore
/** Never values that a person sees, or not to be changed one by one. */
export const untouchable = (name) => /^(?:key|ref|is|slot|data-pg-loc|xmlns.*|on[A-Za-z].*|dangerouslySetInnerHTML)$/.test(name)

export const REASONS = {
  expression: (what) => ({
    code: 'EXPRESSION',
    message: `It is computed: ${shown(what)}.`,
    hint: 'Change the value where the script sets it, with apply_page_edits.',
  }),
  repeated: (what) => ({
    code: 'REPEATED',
    message: `It stands in a loop (${shown(what)}) and is shown once for each item.`,
    hint: 'Send the edit with "all_repetitions": true to change every repetition, or edit the list itself with apply_page_edits.',
  }),
  component: (tag) => ({
    code: 'COMPONENT',
    message: `What <${tag}> shows is not written in this file.`,
    hint: 'Change its attributes here, or the component itself.',
  }),
}

const shown = (text) => (text.length > 80 ? `${text.slice(0, 80)}…` : text).replaceAll(/\s+/g, ' ')

export class Listing {
  constructor(source, language) {
    this.source = source
    this.language = language
    this.nodes = []
  }

  element(id, tag, start) {
    const { line, column } = this.source.at(start)
    return { id, tag, line, column }
  }

  /** Something that can be changed. `change` says how: `{place, quote, before, after}`, and `remove: [start, end]`. */
  add({ id, kind, element, name = null, value, start, end, change, loop = null, can = ['set'] }) {
    const reason = loop === null ? null : REASONS.repeated(loop)
    const held = value === undefined ? PLACES[change.place].read(this.source.text.slice(start, end)) : value
    this.#push({ id, kind, element, name, value: held, range: this.#range(start, end), can, reason }, change)
  }

  /** Something that is shown and may not be changed here. */
  addFixed({ id, kind, element, name = null, start, end, reason }) {
    const text = this.source.text.slice(start, end)
    const value = text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text
    this.#push({ id, kind, element, name, value, range: this.#range(start, end), can: [], reason }, null)
  }

  #push(node, change) {
    if (this.nodes.length >= NODES_MAX) throw new TooManyNodes()
    this.nodes.push({ node, change })
  }

  #range(start, end) {
    const [from, to] = [this.source.at(start), this.source.at(end)]
    return { start, end, line: from.line, column: from.column, end_line: to.line, end_column: to.column }
  }
}

/** Numbers what is alike among siblings: `next('p')` is 1, then 2. */
export class Numbers {
  #counts = new Map()

  next(name) {
    const number = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, number)
    return number
  }
}

/** The range of an attribute with the white space before it, so that removing it leaves no hole. */
export function withSpaceBefore(text, start, end) {
  let from = start
  while (from > 0 && /\s/.test(text[from - 1])) from--
  return [from, end]
}
