/**
 * What an author's module may import (D3, X2), decided from the words of the import alone: nothing here reads a file.
 *
 * `judge` is asked twice: of the source, where the answer can be located, and again of every id that Vite resolves.
 */
import path from 'node:path'
import { KIT_NAMES, KIT_VERSION } from './kit.mjs'
import { insteadOf } from './packages.mjs'
import { frameworkOf } from './task.mjs'

export const FRAMEWORK_MODULES = {
  vue: ['vue'],
  react: ['react', 'react-dom', 'react-dom/client', 'react/jsx-runtime', 'react/jsx-dev-runtime'],
}

const NAMES_SHOWN_MAX = 12
const FOLDER_OF_ALIAS = { '@components/': 'components/', '@pages/': 'pages/' }

/**
 * The meaning of `specifier` in the module `importer`: `{framework}`, `{module}`, `{asset}`, `{kit}`, or `{code, message, hint}`
 * when it is refused.
 */
export function judge(specifier, importer, task) {
  const framework = frameworkOf(importer)
  if (FRAMEWORK_MODULES[framework].includes(specifier)) return { framework: specifier }
  if (specifier.startsWith('@assets/')) return judgeAsset(specifier, task)
  if (/^@kit(?:\/|$)/.test(specifier)) return judgeKit(specifier)
  for (const [alias, folder] of Object.entries(FOLDER_OF_ALIAS)) {
    if (specifier.startsWith(alias)) return judgeModule(specifier, folder + specifier.slice(alias.length), importer, task)
  }
  if (/^\.\.?\//.test(specifier)) {
    const logical = path.posix.normalize(path.posix.join(path.posix.dirname(importer), specifier))
    return judgeModule(specifier, logical, importer, task)
  }
  const hint = [meantModule(specifier, framework, task) ?? insteadOf(specifier, framework), allowedHint(framework, task)]
  return refused('PAGE_IMPORT_NOT_ALLOWED', `"${specifier}" may not be imported here.`, hint.filter(Boolean).join(' '))
}

/** The habits of other projects: `@/components/X`, `~/assets/x.svg`, `src/components/X.vue`, `@components`. */
function meantModule(specifier, framework, task) {
  const suffix = framework === 'vue' ? '.vue' : '.tsx'
  const name = path.posix.basename(specifier).replace(/\.\w+$/, '')
  if (/^[@~]?\/?(?:src\/)?(?:\w+\/)*(?:components|pages|views)(?:\/|$)/i.test(specifier)) {
    const known = task.known.modules.filter((p) => p.endsWith(suffix))
    const near = nearNames(name, known.map((p) => path.posix.basename(p, suffix)))[0]
    const found = known.find((p) => path.posix.basename(p, suffix) === near)
    if (found) return `Did you mean ${aliased(found)}?`
    return /\/ui\//.test(specifier) ? insteadOf(specifier, framework) : `Import each component by its own file: @components/<Name>${suffix}.`
  }
  if (!/^[@~]?\/?(?:src\/|public\/)?assets\//.test(specifier)) return null
  return `Did you mean @assets/${nearAsset(specifier, task.known.assets) ?? '<file>'}?`
}

function nearAsset(file, known) {
  const name = path.posix.basename(file.replace(/[?#].*$/, ''))
  return known.find((asset) => asset === name || path.posix.basename(asset) === name) ?? nearNames(name, known)[0]
}

function judgeModule(specifier, logical, importer, task) {
  const framework = frameworkOf(importer)
  if (!/^(pages|components)\/[^/\\]*$/.test(logical) || !/^\.(vue|tsx)?$|^$/.test(path.posix.extname(logical))) {
    const message = `"${specifier}" is neither a component nor a page.`
    const instead = insteadOfFile(specifier, logical, framework, task)
    return refused('PAGE_IMPORT_NOT_ALLOWED', message, [instead, allowedHint(framework, task)].filter(Boolean).join(' '))
  }
  if (!task.has(logical)) {
    // Read for the names of modules, not parsed, before it came here.
    if (task.known.modules.includes(logical)) return refused('PAGE_IMPORT_NOT_FOUND', `"${specifier}" exists, and is not written as plain text here.`, 'Write the path out, without escapes.')
    return refused('PAGE_IMPORT_NOT_FOUND', `"${specifier}" does not exist.`, missingHint(logical, importer, framework, task))
  }
  if (frameworkOf(logical) !== framework) {
    const message = `"${specifier}" is made with ${title(frameworkOf(logical))}, and this file with ${title(framework)}.`
    const hint = `Import a .${framework === 'vue' ? 'vue' : 'tsx'} module here; the two frameworks do not mix in one page.`
    return refused('PAGE_IMPORT_NOT_ALLOWED', message, hint)
  }
  return { module: logical }
}

function insteadOfFile(specifier, logical, framework, task) {
  const suffix = path.posix.extname(logical)
  if (/^\.(?:css|scss|sass|less|styl)$/.test(suffix)) {
    return framework === 'vue' ? 'Put the CSS into <style scoped>, or use Tailwind classes.' : 'Use Tailwind classes, style={{ … }}, or a <style> element.'
  }
  if (/^\.(?:png|jpe?g|gif|svg|webp|avif|ico|mp4|webm|mp3|wav|woff2?|ttf|otf|pdf)$/i.test(suffix)) {
    return `Import it as @assets/${nearAsset(specifier, task.known.assets) ?? '<file>'}.`
  }
  if (/^\.(?:json|ya?ml|csv|txt|md)$/.test(suffix)) return 'Put the data into the page, or into a component.'
  const other = nearModule(logical.replace(/\.\w+$/, ''), framework, task)
  return other ? `Did you mean ${aliased(other)}?` : 'Put the code into the page, or into a component.'
}

/** An asset named by an import must be named exactly; by an address it may carry a query or a fragment. */
function judgeAsset(specifier, task) {
  const file = specifier.slice('@assets/'.length)
  if (task.assets.has(file)) return { asset: file }
  const { assets: known } = task.known
  if (known.includes(file)) return refused('PAGE_ASSET_NOT_FOUND', `The asset "${specifier}" exists, and is not written as plain text here.`, 'Write its address out, without escapes.')
  const nearest = nearAsset(file, known)
  const hint = known.length
    ? `${nearest ? `Did you mean @assets/${nearest}? ` : ''}Assets known here: ${listed(known)}.`
    : 'No asset is known here: upload it first, or draw it with inline SVG or CSS.'
  return refused('PAGE_ASSET_NOT_FOUND', `The asset "${specifier}" does not exist.`, hint)
}

/** An address that leads to no asset and nowhere else either: always a refusal. */
export function judgeStray(address, task) {
  const near = nearAsset(address, task.known.assets)
  const hint = `${near ? `Did you mean @assets/${near}? ` : ''}Reach files with @assets/<file>.`
  return refused('PAGE_ASSET_NOT_ALLOWED', `The address "${address.slice(0, 80)}" does not lead to an asset.`, hint)
}

/** `judge` for an address in a template or a style: `{asset, rest}` or a refusal. */
export function judgeAddress(address, task) {
  const exact = judgeAsset(address, task)
  const cut = address.search(/[?#]/)
  if (!exact.code || cut === -1) return exact
  const named = judgeAsset(address.slice(0, cut), task)
  return named.code ? named : { ...named, rest: address.slice(cut) }
}

export const assetFolder = (task) => `${task.base}assets/`

/** The address of an asset below `folder`, valid for a name with any characters. */
export function assetUrl({ asset, rest = '' }, folder) {
  return folder + asset.split('/').map(encodeURIComponent).join('/') + rest
}

function judgeKit(specifier) {
  const name = specifier.slice('@kit/'.length)
  if (KIT_NAMES.includes(name)) return { kit: name }
  const bare = name.replace(/\.\w+$/, '')
  const meant = KIT_NAMES.find((each) => each.toLowerCase() === bare.toLowerCase()) ?? nearNames(bare, KIT_NAMES)[0]
  const hint = meant ? `Write @kit/${meant}.` : 'Import each component by its own name: import Bars from "@kit/Bars".'
  const what = name ? `The kit has no "${name}".` : 'The kit itself is no module.'
  return refused('PAGE_IMPORT_NOT_FOUND', what, `${hint} Kit ${KIT_VERSION} has ${KIT_NAMES.join(', ')}; anything else can be a component of the project.`)
}

const refused = (code, message, hint) => ({ code, message, hint })
const title = (framework) => ({ vue: 'Vue', react: 'React' })[framework]
const aliased = (logical) => `@${logical}`

function allowedHint(framework, task) {
  const suffix = framework === 'vue' ? '.vue' : '.tsx'
  const components = task.known.modules.filter((p) => p.startsWith('components/') && p.endsWith(suffix)).map(aliased)
  return (
    `Allowed: ${FRAMEWORK_MODULES[framework].slice(0, 3).join(', ')}, @components/<Name>${suffix}, ` +
    `@pages/<code>${suffix}, @assets/<file>, @kit/<Name>.` +
    (components.length ? ` Components known here: ${listed(components)}.` : '')
  )
}

function missingHint(logical, importer, framework, task) {
  const folder = path.posix.dirname(logical)
  const suffix = framework === 'vue' ? '.vue' : '.tsx'
  const known = task.known.modules.filter((p) => p.startsWith(`${folder}/`) && p.endsWith(suffix) && p !== importer)
  const nearest = nearModule(logical, framework, task, importer)
  const what = folder === 'pages' ? 'page' : 'component'
  const others = known.length ? ` Known here: ${listed(known.map(aliased))}.` : ''
  if (nearest) return `Did you mean ${aliased(nearest)}? Otherwise create the ${what} first.`
  if (stem(logical) === 'index') return `Import each ${what} by its own file.${others}`
  if (folder === 'pages' && !path.posix.extname(logical) && logicalIsBeside(logical, importer)) {
    return `Beside a page there are only other pages: put it into this file, or into a component.${others}`
  }
  return `Create the ${what} first, or import one that exists.${others}`
}

const stem = (p) => path.posix.basename(p, path.posix.extname(p))
const logicalIsBeside = (logical, importer) => path.posix.dirname(logical) === path.posix.dirname(importer)

/** The module that is most like a path, in its own folder first. */
function nearModule(logical, framework, task, importer) {
  const known = task.known.modules.filter((p) => frameworkOf(p) === framework && p !== importer)
  const folder = path.posix.dirname(logical)
  for (const candidates of [known.filter((p) => path.posix.dirname(p) === folder), known.filter((p) => stem(p).toLowerCase() === stem(logical).toLowerCase())]) {
    const like = nearNames(stem(logical), candidates.map(stem))[0]
    if (like !== undefined) return candidates.find((p) => stem(p) === like)
  }
  return undefined
}

function listed(names) {
  const shown = names.toSorted().slice(0, NAMES_SHOWN_MAX)
  return shown.join(', ') + (names.length > shown.length ? `, and ${names.length - shown.length} more` : '')
}

/** The names most like `wanted`, nearest first, none when nothing is like it. One that holds the other is like it. */
export function nearNames(wanted, names, shown_max = 3) {
  const limit = Math.floor(wanted.length / 3)
  const low = wanted.toLowerCase()
  const far = (name) => {
    const steps = distance(low, name, limit)
    const holds = Math.min(low.length, name.length) >= 4 && (low.includes(name) || name.includes(low))
    return steps > limit && holds ? limit + 1 : steps > limit ? Infinity : steps
  }
  return names
    .map((name) => [far(name.toLowerCase()), name])
    .filter(([steps]) => steps < Infinity)
    .toSorted((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1))
    .slice(0, shown_max)
    .map(([, name]) => name)
}

/** Levenshtein distance, given up once it must be over `limit`. */
function distance(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]
}
