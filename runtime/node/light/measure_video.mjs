/**
 * MP4, MOV and WebM: the size at which the first picture track is shown, with its rotation and its pixels' own ratio.
 */
import { CustomSource, Input, MP4, MATROSKA, QTFF, WEBM } from 'mediabunny'
import { Unmeasurable } from './unmeasurable.mjs'

const FORMATS = new Map([[MP4, 'mp4'], [QTFF, 'mov'], [WEBM, 'webm']])
const CACHE_BYTES = 4 * 1024 * 1024

export async function measureVideo(reader) {
  let unheard = null
  const source = new CustomSource({
    getSize: () => reader.size,
    read: (start, end) => reader.read(start, end),
    maxCacheSize: CACHE_BYTES,
    handleUnhandledError: (error) => (unheard = error),
  })
  const input = new Input({ source, formats: [...FORMATS.keys(), MATROSKA] })
  try {
    const format = FORMATS.get(await input.getFormat()) ?? 'matroska'
    const track = await input.getPrimaryVideoTrack()
    if (!track) throw new Unmeasurable('ASSET_HAS_NO_SIZE', 'The video has no picture track.')
    return { kind: 'video', format, width: track.displayWidth, height: track.displayHeight }
  } catch (error) {
    if (error instanceof Unmeasurable) throw error
    if (unheard instanceof Unmeasurable) throw unheard
    // Whatever a reader says of a damaged file is about its bytes; a fault of this machine would end the file's own reads.
    throw new Unmeasurable('ASSET_UNREADABLE', 'The file is no MP4, MOV or WebM video, or its header is damaged.')
  } finally {
    input.dispose()
  }
}
