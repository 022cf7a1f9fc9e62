/**
 * PNG, JPEG, GIF, WebP, AVIF and ICO: the size from the header, turned as Chromium turns it.
 */
import { disableTypes, imageSize, types } from 'image-size'
import { Unmeasurable } from './unmeasurable.mjs'

const HEAD_BYTES = 256 * 1024
const HEAD_BYTES_MAX = 8 * 1024 * 1024 // a photograph may carry thumbnails and colour profiles before its size

/** By the first bytes; a file's ending says little. */
const FORMATS = [
  ['png', (b) => starts(b, 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
  ['jpg', (b) => starts(b, 0, [0xff, 0xd8, 0xff])],
  ['gif', (b) => ['GIF87a', 'GIF89a'].includes(ascii(b, 0, 6))],
  ['webp', (b) => ascii(b, 0, 4) === 'RIFF' && ascii(b, 8, 12) === 'WEBP'],
  ['avif', (b) => ascii(b, 4, 8) === 'ftyp' && /avi[fs]/.test(ascii(b, 8, 64))],
  ['ico', (b) => starts(b, 0, [0, 0, 1, 0])],
]
const READ_AS = { avif: 'heif' }
disableTypes(types.filter((type) => !FORMATS.some(([format]) => type === format || type === READ_AS[format])))

const starts = (bytes, at, values) => values.every((value, index) => bytes[at + index] === value)
const ascii = (bytes, from, to) => String.fromCharCode(...bytes.subarray(from, to))

export async function measureRaster(reader) {
  const head = await reader.read(0, HEAD_BYTES)
  const format = FORMATS.find(([, is]) => is(head))?.[0]
  if (!format) throw new Unmeasurable('ASSET_UNREADABLE', 'The file is no PNG, JPEG, GIF, WebP, AVIF or ICO image.')
  const [size, bytes] = await sizeIn(reader, head)
  const turned = { jpg: () => size.orientation >= 5, png: () => pngOrientation(bytes) >= 5, avif: () => avifTurns(bytes) % 2 === 1 }[format]?.()
  const { width, height } = size
  return { kind: 'raster', format, width: turned ? height : width, height: turned ? width : height }
}

async function sizeIn(reader, head) {
  try {
    return [imageSize(head), head]
  } catch (error) {
    if (reader.size <= head.length) throw broken()
  }
  const more = await reader.read(0, HEAD_BYTES_MAX)
  try {
    return [imageSize(more), more]
  } catch (error) {
    throw broken()
  }
}

const broken = () => new Unmeasurable('ASSET_UNREADABLE', 'The header of the image is damaged.')

/** The orientation in a PNG's `eXIf` chunk, 1 when it has none. */
function pngOrientation(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 8; at + 12 <= bytes.length; at += 12 + view.getUint32(at)) {
    if (ascii(bytes, at + 4, at + 8) === 'eXIf') return exifOrientation(view, at + 8, Math.min(bytes.length, at + 8 + view.getUint32(at)))
  }
  return 1
}

/** Tag 0x0112 of the first directory of a TIFF header. */
function exifOrientation(view, start, end) {
  if (end - start < 14) return 1
  const little = view.getUint16(start) === 0x4949
  const directory = start + view.getUint32(start + 4, little)
  if (directory + 2 > end) return 1
  const entries = view.getUint16(directory, little)
  for (let at = directory + 2, left = entries; left > 0 && at + 12 <= end; at += 12, left--) {
    if (view.getUint16(at, little) === 0x0112) return view.getUint16(at + 8, little)
  }
  return 1
}

/** Quarter turns named by the `irot` property among the first bytes of an AVIF. */
function avifTurns(bytes) {
  const head = bytes.subarray(0, 64 * 1024)
  for (let at = head.indexOf(0x69); at !== -1; at = head.indexOf(0x69, at + 1)) {
    if (ascii(head, at, at + 4) === 'irot' && starts(head, at - 4, [0, 0, 0, 9])) return head[at + 4] & 3
  }
  return 0
}
