/**
 * Asset ratio (V9): how wide and high an image, an SVG or a video is shown, read from as few of its bytes as will do.
 *
 * Reads headers only and decodes no pixel. The file is hostile until shown otherwise: every read is bounded, and what
 * cannot be read is refused with a code. A reader that never ends is ended from outside, with the worker.
 */
import { open } from 'node:fs/promises'
import { refusal } from '../errors.mjs'
import { Unmeasurable } from './unmeasurable.mjs'
import { measureRaster } from './measure_raster.mjs'
import { measureSvg } from './measure_svg.mjs'

/** More than any browser draws; beyond it a file is an attack or a mistake. */
const SIDE_PX_MAX = 65_535
const AREA_PX_MAX = 2 ** 28


/** `{result: {kind, format, width_px, height_px, ratio, declared}}` or `{errors}`. `input.media_type` says what it should be. */
export async function assetRatio({ input, file }) {
  const media = String(input.media_type ?? '')
  if (file === null) return refused(new Unmeasurable('ASSET_UNREADABLE', 'There is no file.'))
  const handle = await open(file, 'r')
  try {
    const { size } = await handle.stat()
    const found = await measurerOf(media)(bounded(handle, size))
    return { result: checked(found) }
  } catch (error) {
    if (error instanceof Unmeasurable) return refused(error)
    throw error
  } finally {
    await handle.close()
  }
}

function measurerOf(media) {
  if (media === 'image/svg+xml') return measureSvg
  if (media.startsWith('image/')) return measureRaster
  if (media.startsWith('video/')) return async (reader) => (await import('./measure_video.mjs')).measureVideo(reader)
  return () => {
    throw new Unmeasurable('ASSET_NOT_MEASURABLE', 'A file of this kind has no width and height.')
  }
}

const refused = ({ code, message }) => ({ errors: [refusal(code, message)] })

function checked({ kind, format, width, height, ratio = width / height, declared = true }) {
  if (!(width > 0 && height > 0)) throw new Unmeasurable('ASSET_HAS_NO_SIZE', `The file says it is ${width} × ${height} px.`)
  const [width_px, height_px] = [Math.max(1, Math.round(width)), Math.max(1, Math.round(height))]
  if (!(width <= SIDE_PX_MAX && height <= SIDE_PX_MAX && width * height <= AREA_PX_MAX)) {
    throw new Unmeasurable('ASSET_DIMENSIONS_TOO_LARGE', `The file says it is ${width_px} × ${height_px} px.`)
  }
  return { kind, format, width_px, height_px, ratio: Math.round(ratio * 1e6) / 1e6, declared }
}

const READ_BYTES_MAX = 32 * 1024 * 1024

/** Reads of a file, that together may not ask for more than `READ_BYTES_MAX`. */
function bounded(handle, size) {
  let left = READ_BYTES_MAX
  return {
    size,
    async read(start, end) {
      const length = Math.max(0, Math.min(end, size) - start)
      left -= length
      if (left < 0) throw new Unmeasurable('ASSET_UNREADABLE', 'The size of the picture is not where it should be in the file.')
      const bytes = new Uint8Array(length)
      const { bytesRead } = await handle.read(bytes, 0, length, start)
      return bytes.subarray(0, bytesRead)
    },
  }
}
