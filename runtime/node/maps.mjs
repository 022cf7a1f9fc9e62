/**
 * Source maps that speak of the author's modules and of nothing else: sources are logical paths. Their texts come along,
 * so that a finding can be located by what the author wrote (a tag, an address) where no position leads there.
 */
import path from 'node:path'

/** Everything that is not the author's (the entry, helpers) is named as ours, without a path. */
export function logicalMap(map, task) {
  if (!map) return { version: 3, sources: [], names: [], mappings: '' }
  const sources = map.sources.map((source) => {
    const plain = source.startsWith('file://') ? new URL(source).pathname : source
    // Named from the output folder, which Vite takes to be `dist` although nothing is written there.
    return task.logicalOf(path.resolve(task.dir, 'dist', plain)) ?? 'pagegate:host'
  })
  const sourcesContent = sources.map((source) => (task.has(source) ? task.source(source).text : null))
  return { version: 3, file: 'page.js', sources, sourcesContent, names: map.names, mappings: map.mappings }
}
