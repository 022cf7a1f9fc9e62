/**
 * The second wall around a compile (X2): what Vite resolves, loads and makes is held against the allow-list again, after
 * the author's source has been inspected. Three plugins, because three moments matter: before anything else, after
 * Tailwind has made CSS out of class names, and at the very end.
 *
 * Nothing outside the task's modules and a few virtual ones is ever loaded: the frameworks are external.
 */
import path from 'node:path'
import { parseSync } from 'vite'
import postcss from 'postcss'
import { refusal } from './errors.mjs'
import { entryScript, entryStyle, vendorUrl } from './host.mjs'
import { assetFolder, assetUrl, judge, judgeAddress, nearNames } from './imports.mjs'
import { hideAssets, urlsIn, valueProblem, withReference } from './inspect_style.mjs'
import { isOfKit, kitId, KIT_NAMES, loadKit, resolveInKit } from './kit.mjs'
import { markJsx } from './mark.mjs'
import { insteadOfName } from './packages.mjs'

const ASSET_PREFIX = '\0pagegate:asset/'
/** Modules of Vite and its plugins that stand in memory. */
const TRUSTED_VIRTUAL = /^\0(?:plugin-vue:export-helper|vite\/|rolldown[/:])/
const VUE_BLOCK = /\?vue&type=(?:script|style)(?:&(?:setup=true|index=\d+|scoped=[\w-]+|generic=[^&]*|lang\.(?:module\.)?(?:ts|js|css)))*$/
const OUTPUTS = new Set(['page.js', 'page.css', 'page.js.map'])

/** Thrown through Vite to end a build whose errors are already in `found.errors`. */
export class Refused extends Error {}

export function guard(task, found, vendor) {
  const entry = path.join(task.dir, 'entry.js')
  const style = path.join(task.dir, 'entry.css')
  const refuse = (error) => {
    found.errors.push(error)
    throw new Refused(error.message)
  }

  const first = {
    name: 'pagegate:first',
    enforce: 'pre',
    resolveId(specifier, importer) {
      if (importer === undefined) return specifier === entry ? entry : refuse(fault('an entry that is not ours'))
      if (importer === entry) return resolveForEntry(specifier, task, style)
      if (isOfKit(importer)) return resolvedInKit(specifier)
      const logical = task.logicalOf(importer)
      if (!logical) return null // a virtual module of Vite; what it names is held against the list in `load`
      if (TRUSTED_VIRTUAL.test(specifier)) return null
      if (task.logicalOf(specifier) === logical && VUE_BLOCK.test(specifier)) return null
      const meaning = judge(specifier, logical, task)
      if (meaning.code) refuse(locatedBySpecifier(meaning, specifier, logical, task))
      return resolved(meaning, task)
    },
    load(id) {
      if (id === entry) return entryScript(task.framework, found)
      if (id === style) return entryStyle(found.paths.map((p) => path.posix.relative(task.dir, task.file(p))), found.kit)
      if (isOfKit(id)) return loadKit(id)
      if (id.startsWith(ASSET_PREFIX)) {
        return `export default ${JSON.stringify(assetUrl({ asset: id.slice(ASSET_PREFIX.length) }, assetFolder(task)))}`
      }
      const logical = task.logicalOf(id)
      if (logical && id === task.file(logical)) {
        return logical.endsWith('.tsx') ? markJsx(task.source(logical), found.modules.get(logical), task) : { code: task.source(logical).text, map: null }
      }
      if ((logical && VUE_BLOCK.test(id)) || TRUSTED_VIRTUAL.test(id)) return null
      return refuse(fault('a file outside the task'))
    },
    transform(code, id) {
      if (!task.logicalOf(id) || !/[?&]type=style/.test(id)) return null
      return { code: withReference(hideAssets(code, task)), map: null }
    },
  }

  const afterTailwind = {
    name: 'pagegate:after-tailwind',
    enforce: 'pre',
    transform(code, id) {
      if (id !== style || !/url|image|src\(/i.test(code)) return null
      postcss.parse(code, { map: false }).walkDecls(({ prop, value }) => {
        const assets = urlsIn(value).filter((url) => url.startsWith('@assets/'))
        const problem = valueProblem(prop, value) ?? assets.map((url) => judgeAddress(url, task)).find((m) => m.code)
        if (problem) refuse(locatedByText(problem, value, found, task))
      })
      return { code: hideAssets(code, task), map: null }
    },
  }

  const last = {
    name: 'pagegate:last',
    enforce: 'post',
    transform(code, id) {
      const logical = task.logicalOf(id)
      if (!logical || /[?&]type=style/.test(id)) return null
      const { module } = parseSync('compiled.js', code, { lang: 'js', sourceType: 'module' })
      if (module.importMetas.length) {
        const message = 'import.meta is not available in a page.'
        refuse(locatedByText({ code: 'PAGE_SOURCE_NOT_ALLOWED', message }, 'import.meta', found, task, logical))
      }
      const wrong = wrongFrameworkNames(module, logical, found, task, vendor)
      found.errors.push(...wrong)
      if (wrong.length) throw new Refused('wrong names')
      return null
    },
    generateBundle(_, bundle) {
      const strange = Object.values(bundle).find((output) => !OUTPUTS.has(output.fileName))
      if (strange) refuse(fault('an output that is not ours'))
    },
  }
  return { first, afterTailwind, last }
}

function resolveForEntry(specifier, task, style) {
  if (specifier === './entry.css') return style
  if (specifier === '@entry') return task.file(task.entry)
  return { id: vendorUrl(specifier), external: 'absolute' }
}

function resolved(meaning, task) {
  if (meaning.framework) return { id: vendorUrl(meaning.framework), external: 'absolute' }
  if (meaning.asset) return ASSET_PREFIX + meaning.asset
  if (meaning.kit) return kitId(meaning.kit, task.framework)
  return task.file(meaning.module)
}

function resolvedInKit(specifier) {
  const { id, framework } = resolveInKit(specifier)
  return id ?? { id: vendorUrl(framework), external: 'absolute' }
}

/** Something got past the inspection that has no place in the source: refuse, and say nothing about this machine. */
function fault(what) {
  return refusal('PAGE_COMPILE_FAILED', `The page asks the compiler for ${what}.`)
}

function locatedBySpecifier({ code, message, hint }, specifier, logical, task) {
  const source = task.source(logical)
  const offset = source.text.indexOf(specifier)
  return refusal(code, message, { source, offset: offset === -1 ? 0 : offset, hint })
}

/** Tailwind makes declarations out of class names: find the module whose text holds the words. */
function locatedByText({ code, message, hint }, text, found, task, only) {
  const words = text.match(/[^\s"'()]{4,}/g) ?? [text]
  for (const logical of only ? [only] : found.paths) {
    const source = task.source(logical)
    const offset = Math.max(...words.map((word) => source.text.indexOf(word)))
    if (offset !== -1) return refusal(code, message, { source, offset, hint })
  }
  return refusal(code, message, { source: task.source(only ?? task.entry), offset: 0, hint })
}

function exportsOf(specifier, vendor) {
  return KIT_NAMES.some((name) => specifier === `@kit/${name}`) ? ['default'] : vendor.exports[specifier]
}

/** Vite does not know what an external module exports, so a wrong name would only fail in the browser. */
function wrongFrameworkNames(module, logical, found, task, vendor) {
  const errors = []
  for (const { moduleRequest, entries } of module.staticImports) {
    const exported = exportsOf(moduleRequest.value, vendor)
    if (!exported) continue
    for (const { importName } of entries) {
      const name = importName.kind === 'Default' ? 'default' : importName.name
      if (importName.kind === 'NamespaceObject' || exported.includes(name)) continue
      errors.push(wrongName(name, moduleRequest.value, exported, logical, found, task))
    }
  }
  return errors
}

function wrongName(name, specifier, exported, logical, found, task) {
  const source = task.source(logical)
  const written = found.modules.get(logical)?.imports.filter((i) => i.specifier === specifier) ?? []
  const offset = written.flatMap((i) => i.names).find((n) => n.name === name)?.offset ?? written[0]?.offset ?? 0
  const near = nearNames(name, exported)
  const message =
    name === 'default' ? `"${specifier}" has no default export.` : `"${specifier}" does not export "${name}".`
  const hint =
    insteadOfName(name, specifier) ??
    (specifier.startsWith('@kit/') ? `It is the default export: import ${specifier.slice('@kit/'.length)} from "${specifier}".` : null) ??
    (name === 'default' ? `Import names: import { … } from "${specifier}".` : near.length ? `Did you mean ${near.join(' or ')}?` : `Import a name that ${specifier} exports.`)
  return refusal('PAGE_EXPORT_NOT_FOUND', message, { source, offset, hint })
}
