/**
 * The kit (D3): components that every page may import as `@kit/<Name>`, made for either framework out of one definition.
 *
 * Owns their names, and the modules that a page which uses one gets into its bundle; nothing of them is on a page that
 * does not. `KIT_VERSION` goes up with everything that changes what a page shows; the Runtime's build covers it (A11).
 */
import fs from 'node:fs'
import path from 'node:path'

export const KIT_VERSION = '1.0'
export const KIT_NAMES = ['Bars', 'Callout', 'Code', 'Icon', 'Line', 'Slide', 'Stat', 'Table']

const PREFIX = '\0pagegate:kit/'
const FOLDER = path.join(import.meta.dirname, 'kit')
const texts = new Map()

/** The id of the module that `@kit/<name>` is in a page of `framework`. */
export const kitId = (name, framework) => `${PREFIX}${framework}/${name}`

export const isOfKit = (id) => id?.startsWith(PREFIX) ?? false

/** What a module of the kit means by `specifier`: another one of the kit, or the framework's name. */
export function resolveInKit(specifier) {
  return specifier.startsWith('./') ? { id: `${PREFIX}file/${specifier.slice(2)}` } : { framework: specifier }
}

export function loadKit(id) {
  const [kind, name] = id.slice(PREFIX.length).split('/')
  if (kind === 'file') return { code: text(name), map: null }
  const code = `import { component } from './host_${kind}.mjs'\nimport definition from './${name}.mjs'\nexport default component(definition)\n`
  return { code, map: null }
}

/** The kit's style sheet, for a page that uses it. */
export const kitStyle = () => text('kit.css')

/** The names under which a module uses components of the kit, as far as it calls them what they are called. */
export function kitTags(imports) {
  return new Set(imports.map(({ specifier }) => specifier.replace(/^@kit\//, '')).filter((name) => KIT_NAMES.includes(name)))
}

/** Read once a worker. */
function text(file) {
  if (!texts.has(file)) texts.set(file, fs.readFileSync(path.join(FOLDER, file), 'utf8'))
  return texts.get(file)
}
