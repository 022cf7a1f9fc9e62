/**
 * SVG: the size that its root element declares, or the one of its `viewBox`.
 *
 * Reads the first bytes only, up to the root's start tag, and expands no entity that the file declares: what a bomb would
 * become is never computed, and no address in it is ever followed.
 */
import sax from 'sax'
import { Unmeasurable } from './unmeasurable.mjs'

const HEAD_BYTES = 256 * 1024
/** CSS pixels; fonts are taken as browsers take them outside of a page. */
const PX = { '': 1, px: 1, pt: 96 / 72, pc: 16, in: 96, cm: 96 / 2.54, mm: 96 / 25.4, q: 96 / 101.6, em: 16, rem: 16, ex: 8, ch: 8 }
/** What a browser takes for a side that is said nowhere. */
const DEFAULT = { width: 300, height: 150 }

export async function measureSvg(reader) {
  const root = rootOf(decoded(await reader.read(0, HEAD_BYTES)))
  const [width, height, box] = [length(root.width), length(root.height), viewBox(root.viewBox)]
  const svg = { kind: 'svg', format: 'svg' }
  if (width !== null && height !== null) return { ...svg, width, height }
  if (box) {
    const ratio = box.width / box.height
    if (width !== null) return { ...svg, width, height: width / ratio, ratio }
    if (height !== null) return { ...svg, width: height * ratio, height, ratio }
    return { ...svg, ...box, ratio, declared: false }
  }
  if (width === null && height === null) {
    throw new Unmeasurable('ASSET_HAS_NO_SIZE', 'The <svg> element has neither a viewBox nor a width and height.')
  }
  return { ...svg, width: width ?? DEFAULT.width, height: height ?? DEFAULT.height, declared: false }
}

function decoded(bytes) {
  const encoding = bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-8'
  return new TextDecoder(encoding).decode(bytes)
}

/** The attributes of the root, by name. */
function rootOf(text) {
  const parser = sax.parser(true, { strictEntities: true, maxEntityCount: 64, maxEntityDepth: 1 })
  let root = null
  let tags = 0
  parser.onerror = () => {
    parser.error = null // an entity that only the file knows; whether the rest is good XML is the browser's business
  }
  parser.onopentag = (tag) => {
    if (tags++ === 0) root = tag
  }
  for (let at = 0; at < text.length && tags === 0; at += 1024) parser.write(text.slice(at, at + 1024))
  if (!root || !/^(?:[\w.-]+:)?svg$/.test(root.name)) {
    throw new Unmeasurable('ASSET_UNREADABLE', `No <svg> element begins in the first ${HEAD_BYTES / 1024} KiB of the file.`)
  }
  return root.attributes
}

/** CSS pixels, or null for none that counts: missing, `auto`, a percentage, or no length at all. */
function length(written) {
  const found = /^\s*\+?(\d{0,30}(?:\.\d{1,30})?(?:e[+-]?\d{1,3})?)\s*([a-z]*)\s*$/i.exec(written ?? '')
  const unit = PX[found?.[2].toLowerCase()]
  if (!found?.[1] || unit === undefined || !/^\.?\d/.test(found[1])) return null
  return Number(found[1]) * unit
}

function viewBox(written) {
  const numbers = (written ?? '').trim().split(/[\s,]+/, 5).map(Number)
  const [, , width, height] = numbers
  return numbers.length === 4 && numbers.every(Number.isFinite) && width > 0 && height > 0 ? { width, height } : null
}
