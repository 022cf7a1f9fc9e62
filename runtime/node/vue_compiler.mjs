/**
 * The Vue compiler of one task: it takes the sources as they were parsed for the inspection, and forgets them afterwards.
 *
 * Vite's plugin keeps every parsed file for as long as the process lives, under its file name, and no task has the file
 * names of another: without this, each compile would leave its syntax trees behind.
 */
import * as compiler from 'vue/compiler-sfc'

export function compilerFor(task, found) {
  return {
    ...compiler,
    parse(text, { filename }) {
      const logical = task.logicalOf(filename)
      const descriptor = found.modules.get(logical)?.descriptor
      if (!descriptor || descriptor.source !== text) throw new Error('a file that was not inspected')
      descriptor.filename = filename
      // Read under its logical path; Vite's maps name files, and a script without `setup` would lead nowhere.
      for (const block of [descriptor.script, descriptor.template]) if (block?.map) block.map.sources = [filename]
      return { descriptor, errors: [] }
    },
  }
}

export function forget(task, found) {
  for (const [logical, { descriptor }] of found.modules) {
    if (!descriptor) continue
    Object.assign(descriptor, { source: '', template: null, script: null, scriptSetup: null, styles: [], slotted: false })
    compiler.invalidateTypeCache(task.file(logical))
  }
  compiler.parseCache.clear()
}
