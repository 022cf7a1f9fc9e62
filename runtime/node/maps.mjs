/**
 * Source maps that speak of the author's modules and of nothing else: sources are logical paths, contents are left out.
 */
import path from 'node:path'

/** Everything that is not the author's (the entry, helpers) is named as ours, without a path. */
export function logicalMap(map, task) {
  if (!map) return { version: 3, sources: [], names: [], mappings: '' }
  const sources = map.sources.map((source) => {
    const plain = source.startsWith('file://') ? new URL(source).pathname : source
    return task.logicalOf(path.resolve(task.dir, plain)) ?? 'pagegate:host'
  })
  return { version: 3, file: 'page.js', sources, names: map.names, mappings: map.mappings }
}
