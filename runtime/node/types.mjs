/**
 * The only files that the Vue compiler may read for types (`defineProps<Imported>()`): the task's own modules, and a
 * configuration that teaches TypeScript the aliases (X2).
 */
import path from 'node:path'

const OPTIONS = {
  module: 'esnext',
  moduleResolution: 'bundler',
  allowImportingTsExtensions: true,
  noEmit: true,
  paths: { '@components/*': ['./components/*'], '@pages/*': ['./pages/*'] },
}

export function typeFiles(task) {
  const configFile = path.join(task.dir, 'tsconfig.json')
  const configText = JSON.stringify({ compilerOptions: OPTIONS, files: [] })
  const read = (file) => {
    if (path.resolve(file) === configFile) return configText
    const logical = task.logicalOf(path.resolve(file))
    return logical && task.source(logical).text
  }
  return {
    fileExists: (file) => read(file) !== undefined,
    readFile: read,
    realpath: (file) => file,
  }
}
