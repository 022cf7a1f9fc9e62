/**
 * One compile task: the artifact's modules under their logical paths, and the folder that holds them while it lasts (V3).
 *
 * Owns the translation between a logical path (`pages/<code>.vue`, any characters) and a file of the task folder, whose
 * name is free of everything that an id of Vite or a glob of Tailwind would read as syntax.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { Source } from './source.mjs'

const LOGICAL = /^(pages|components)\/[^/\\\0]+\.(vue|tsx)$/
const NAME_BYTES_MAX = 180

export const FRAMEWORK_OF_SUFFIX = { '.vue': 'vue', '.tsx': 'react' }
export const frameworkOf = (logical) => FRAMEWORK_OF_SUFFIX[path.posix.extname(logical)]

export class Task {
  #sources = new Map()
  #logicalOfFile = new Map()
  #fileOfLogical = new Map()

  constructor({ dir, entry, modules, assets, known = {}, page, canvas, base = '/', production = false }) {
    this.dir = dir
    this.entry = entry
    this.framework = frameworkOf(entry)
    this.assets = new Set(assets)
    /** What exists around the page, for hints: a minimal snapshot holds less. */
    this.known = { modules: [...new Set([...Object.keys(modules), ...(known.modules ?? [])])], assets: [...new Set([...assets, ...(known.assets ?? [])])] }
    this.page = page
    this.canvas = canvas
    this.base = base // where the page's own files are asked for
    this.production = production // for a site that leaves (B1): small, and without what helps an author
    for (const [logical, text] of Object.entries(modules)) {
      if (!LOGICAL.test(logical)) throw new TypeError('a module path of the artifact is malformed')
      const file = path.join(dir, fileName(logical))
      this.#sources.set(logical, new Source(logical, text))
      this.#fileOfLogical.set(logical, file)
      this.#logicalOfFile.set(file, logical)
    }
    if (!this.#sources.has(entry)) throw new TypeError('the entry is not among the modules of the artifact')
  }

  get modulePaths() {
    return [...this.#sources.keys()]
  }

  has(logical) {
    return this.#sources.has(logical)
  }

  source(logical) {
    return this.#sources.get(logical)
  }

  file(logical) {
    return this.#fileOfLogical.get(logical)
  }

  /** The logical path behind an id of Vite or a file name, or undefined when it is none of the author's modules. */
  logicalOf(id) {
    return id ? this.#logicalOfFile.get(id.replace(/[?#].*$/s, '')) : undefined
  }

  /** Puts the modules that the page really uses on disk: Tailwind reads files. */
  write(logicals) {
    for (const logical of logicals) {
      const file = this.file(logical)
      fs.mkdirSync(path.dirname(file), { recursive: true })
      fs.writeFileSync(file, this.source(logical).text, { flag: 'wx' })
    }
  }
}

function fileName(logical) {
  const folder = path.posix.dirname(logical)
  const suffix = path.posix.extname(logical)
  const name = path.posix.basename(logical, suffix)
  let safe = name.replace(/[^\p{L}\p{N}\p{M}_-]/gu, (char) => `~${char.codePointAt(0).toString(16)}~`)
  if (Buffer.byteLength(safe) > NAME_BYTES_MAX) {
    const digest = createHash('sha256').update(name).digest('hex').slice(0, 16)
    safe = `${[...safe].slice(0, 40).join('')}~${digest}`
  }
  return `${folder}/${safe}${suffix}`
}
