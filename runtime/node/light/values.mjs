/**
 * How a value is written in each place of a source, and read back from it (V9).
 *
 * A value is what a person sees: entities decoded, line ends as LF. What is written must mean exactly the value there: a
 * text stays text, whatever braces, angle brackets and quotes it holds.
 */
import { decodeHTML, decodeHTMLAttribute, decodeHTMLStrict } from 'entities'

const lf = (text) => text.replaceAll('\r\n', '\n')
/** Only where it could be read as the start of an entity: "A & B" stays as people write it. */
const ampersands = (text) => text.replace(/&(?=[a-z#])/gi, '&amp;')
/** A space that does not break is invisible in a source. */
const visible = (text) => text.replaceAll('\u00a0', '&nbsp;')
const quoted = (text, quote) => text.replaceAll(quote, quote === '"' ? '&quot;' : '&#39;')
/** Vue looks for `{{` before it decodes, and what follows the value may begin with a brace. */
const mustaches = (text) => text.replace(/\{(?=\{|$)/g, '&#123;')
const JSX_TEXT = { '{': '&#123;', '}': '&#125;', '<': '&lt;', '>': '&gt;' }
const JS_ESCAPES = { '\n': '\\n', '\r': '\\r', '\u2028': '\\u2028', '\u2029': '\\u2029' }

/**
 * By place: `read(raw)`, and `write(value, {quote, newline})`. `newline` is the page's own line end; a value that only
 * JavaScript can hold over lines keeps none.
 */
export const PLACES = {
  'vue-text': {
    read: (raw) => decodeHTML(lf(raw)),
    write: (value, { newline }) => visible(mustaches(ampersands(value).replaceAll('<', '&lt;'))).replaceAll('\n', newline),
  },
  'vue-attribute': {
    read: (raw) => decodeHTMLAttribute(lf(raw)),
    write: (value, { quote, newline }) => visible(quoted(ampersands(value), quote)).replaceAll('\n', newline),
  },
  'jsx-text': {
    read: (raw) => decodeHTMLStrict(lf(raw)),
    write: (value, { newline }) => visible(ampersands(value).replace(/[{}<>]/g, (char) => JSX_TEXT[char])).replaceAll('\n', newline),
  },
  'jsx-attribute': {
    read: (raw) => decodeHTMLStrict(lf(raw)),
    write: (value, { quote }) => visible(quoted(ampersands(value), quote)).replaceAll('\n', '&#10;'),
  },
  'js-string': {
    read: null, // the parser knows
    write: (value, { quote }) =>
      value.replace(/[\\\n\r\u2028\u2029]/g, (char) => JS_ESCAPES[char] ?? '\\\\').replaceAll(quote, `\\${quote}`),
  },
  'js-template': {
    read: null,
    write: (value, { newline }) => value.replace(/[\\`]|\$(?=\{)/g, (char) => `\\${char}`).replaceAll('\n', newline),
  },
}

/** The line end that most of a source has. */
export function newlineOf(text) {
  const all = text.split('\n').length - 1
  const carriage = text.split('\r\n').length - 1
  return carriage * 2 > all ? '\r\n' : '\n'
}

const SPACE = /[ \t\n\f\r]/

/** `[start, end]` of a piece of text without the white space around it; null when there is nothing else. */
export function core(text, start, end) {
  let [from, to] = [start, end]
  while (from < to && SPACE.test(text[from])) from++
  while (to > from && SPACE.test(text[to - 1])) to--
  return from === to ? null : [from, to]
}
