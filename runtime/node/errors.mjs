/**
 * The words of a refused compile (V8): every code that can name an error in an author's source, with its next step.
 *
 * Owns the table of codes, the shape of one located error, and what a message may hold (no colours, no machine path).
 */
import { stripVTControlCharacters } from 'node:util'
import { advise } from './advice.mjs'

export const ERRORS_MAX = 20
const MESSAGE_CHARS_MAX = 1000

/** Stable codes. The hint is what the author should do next, unless the place that found the error knows better. */
const HINTS = {
  PAGE_SOURCE_EMPTY: 'Send the whole source of the page: a Vue component, or a TSX module with a default export.',
  PAGE_SOURCE_FENCED: 'Send the source alone, without the Markdown fence around it.',
  PAGE_SOURCE_TOO_LARGE: 'Make the page smaller: move large data or pictures into assets.',
  PAGE_SOURCE_NOT_ALLOWED: 'Remove it. A page is a Vue file with <template>, <script> and <style>, or a TSX module.',
  PAGE_TEMPLATE_SYNTAX: 'Correct the template at this place and send the page again.',
  PAGE_SCRIPT_SYNTAX: 'Correct the script at this place and send the page again.',
  PAGE_STYLE_SYNTAX: 'Correct the style at this place and send the page again.',
  PAGE_STYLE_NOT_ALLOWED: 'Write plain CSS or Tailwind classes; files are reached with url("@assets/<file>") only.',
  PAGE_IMPORT_NOT_FOUND: 'Correct the name, or create what is missing first.',
  PAGE_IMPORT_NOT_ALLOWED:
    'A page may import its framework, @components/<Name>, @pages/<code>, @assets/<file> and @kit/<Name>, nothing else.',
  PAGE_EXPORT_NOT_FOUND: 'Import a name that the module exports.',
  PAGE_ASSET_NOT_FOUND: 'Use an asset that exists, or upload it first.',
  PAGE_ASSET_NOT_ALLOWED: 'Reach files with @assets/<file>.',
  PAGE_OUTPUT_TOO_LARGE: 'Make the page smaller: move large data or pictures into assets.',
  COMPONENT_CYCLE: 'Take what both need out into a component of its own.',
  COMPONENT_EXPORT_MISSING: 'Export the component as the default of its file.',
  COMPONENT_EXPORT_INVALID: 'Export a component as the default of its file.',
  VISUAL_EDIT_INVALID: 'Send action "list" or "apply" with what the description of the tool names.',
  VISUAL_EDIT_STALE: 'List the nodes of the page as it is now, and make the edit again.',
  VISUAL_EDIT_NODE_UNKNOWN: 'Use the id of a node as the list names it.',
  VISUAL_EDIT_NOT_EDITABLE: 'Change it in the source, with apply_page_edits.',
  VISUAL_EDIT_OVERLAP: 'Send one edit for each node.',
  VISUAL_EDIT_VALUE_INVALID: 'Send another value.',
  VISUAL_EDIT_BREAKS_PAGE: 'Nothing was changed. Make this edit in the source, with apply_page_edits.',
  VISUAL_EDIT_SOURCE_UNREADABLE: 'Correct the source first; the message says where.',
  VISUAL_EDIT_TOO_LARGE: 'Split the page into components; they can be edited one by one.',
  ASSET_UNREADABLE: 'Upload the file again, whole and in the format that its name says.',
  ASSET_HAS_NO_SIZE: 'Give the file a size: an SVG needs a viewBox, or a width and a height in numbers; a video needs a picture track.',
  ASSET_DIMENSIONS_TOO_LARGE: 'Make it smaller: at most 65535 px a side and 268 million pixels.',
  ASSET_NOT_MEASURABLE: 'Only images, SVG and videos have a size.',
  LIGHT_TOOL_UNKNOWN: 'Use a tool that exists, or a Runtime that has it.',
  PAGE_COMPILE_FAILED: 'Correct the source as the message says and send the page again.',
}

/**
 * One error in an author's source. `source` is a `Source`, `offset` counts UTF-16 units into it; both may be absent for
 * an error that belongs to no place.
 */
export function refusal(code, message, { source, offset, line, column, hint, plugin } = {}) {
  if (!(code in HINTS)) throw new Error(`no such code: ${code}`)
  const place = source && offset !== undefined ? source.at(offset) : { line, column }
  return {
    code,
    message: tidy(message),
    hint: hint ?? (source && place.line ? advise(code, message, source, offset ?? source.offsetOf(place.line, place.column)) : null) ?? HINTS[code],
    file: source?.path ?? null,
    line: place.line ?? null,
    column: place.column ?? null,
    frame: source && place.line ? source.frame(place.line, place.column) : null,
    plugin: plugin ?? null,
  }
}

function tidy(message) {
  const plain = stripVTControlCharacters(String(message)).replace(/ If you are using a previous version of .*$/s, '').trim()
  return plain.length > MESSAGE_CHARS_MAX ? `${plain.slice(0, MESSAGE_CHARS_MAX)}…` : plain
}

/** In order of file and place, each once, at most `ERRORS_MAX`. */
export function ordered(errors, files) {
  const rank = new Map(files.map((file, index) => [file, index]))
  const place = (e) => [rank.get(e.file) ?? files.length, e.line ?? 0, e.column ?? 0]
  const seen = new Set()
  return errors
    .toSorted((a, b) => {
      const [left, right] = [place(a), place(b)]
      return left[0] - right[0] || left[1] - right[1] || left[2] - right[2]
    })
    .filter((e) => {
      const key = JSON.stringify([e.code, e.message, e.file, e.line, e.column])
      return !seen.has(key) && seen.add(key)
    })
    .slice(0, ERRORS_MAX)
}
