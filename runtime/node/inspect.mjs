/**
 * Reads the author's sources before Vite does (V8, X2): everything that can be refused is refused here, because here it
 * can be located; what Vite says later speaks of compiled code.
 *
 * Starts at the entry and follows imports through the artifact, so that only modules the page really uses are read.
 */
import { parse as parseVue } from 'vue/compiler-sfc'
import { refusal } from './errors.mjs'
import { judge, judgeAddress } from './imports.mjs'
import { inspectScript } from './inspect_script.mjs'
import { inspectStyle } from './inspect_style.mjs'
import { inspectBlocks, inspectTemplate } from './inspect_template.mjs'

const SOURCE_CHARS_MAX = 4 * 1024 * 1024

/**
 * `{paths, errors, imports, exports, styles, asyncSetup}`: the modules that the page uses in the order they were met, the
 * located errors, what each module imports, exports and styles, and whether one of them awaits in its setup.
 */
export function inspect(task) {
  const found = { paths: [], errors: [], imports: new Map(), exports: new Map(), styles: new Map(), asyncSetup: false }
  const waiting = [task.entry]
  const met = new Set(waiting)
  while (waiting.length) {
    const logical = waiting.shift()
    found.paths.push(logical)
    const seen = inspectModule(task.source(logical))
    found.errors.push(...seen.errors)
    for (const table of ['imports', 'exports', 'styles']) found[table].set(logical, seen[table])
    found.asyncSetup ||= seen.asyncSetup
    for (const entry of seen.imports) {
      const meaning = judge(entry.specifier, logical, task)
      if (meaning.code) {
        found.errors.push(refusal(meaning.code, meaning.message, { source: task.source(logical), ...entry, hint: meaning.hint }))
      } else if (meaning.module && !met.has(meaning.module)) {
        met.add(meaning.module)
        waiting.push(meaning.module)
      }
    }
    for (const use of seen.assets) {
      const meaning = judgeAddress(use.specifier, task)
      if (meaning.code) {
        found.errors.push(refusal(meaning.code, meaning.message, { source: task.source(logical), ...use, hint: meaning.hint }))
      }
    }
  }
  return found
}

function inspectModule(source) {
  const seen = { errors: [], imports: [], exports: [], styles: [], assets: [], asyncSetup: false }
  const unfit = unfitSource(source)
  if (unfit) seen.errors.push(unfit)
  else if (source.path.endsWith('.vue')) inspectVue(source, seen)
  else inspectScript(source, { text: source.text, offset: 0, lang: 'tsx' }, seen)
  return seen
}

/** A source that is no source: nothing, far too much, or wrapped in a Markdown fence. */
function unfitSource(source) {
  const { text } = source
  if (!text.trim()) return refusal('PAGE_SOURCE_EMPTY', 'The source is empty.', { source, offset: 0 })
  if (text.length > SOURCE_CHARS_MAX) {
    const message = `The source has ${text.length} characters; ${SOURCE_CHARS_MAX} are the limit.`
    return refusal('PAGE_SOURCE_TOO_LARGE', message, { source, offset: 0 })
  }
  const fence = /^\s*(?:```|~~~)/.exec(text) ?? (source.path.endsWith('.tsx') ? /\n\s*(?:```|~~~)\s*$/.exec(text) : null)
  if (!fence) return null
  const offset = fence.index + fence[0].search(/[`~]/)
  return refusal('PAGE_SOURCE_FENCED', 'The source is wrapped in a Markdown code fence.', { source, offset })
}

function inspectVue(source, seen) {
  const { descriptor, errors } = parseVue(source.text, { filename: source.path, sourceMap: false, ignoreEmpty: false })
  const fence = fenceOutsideBlocks(source, descriptor)
  if (fence) return void seen.errors.push(fence)
  inspectBlocks(source, descriptor, seen)
  const scriptsBefore = seen.errors.length
  for (const block of [descriptor.script, descriptor.scriptSetup]) {
    if (!block || block.src || !['ts', 'js', undefined].includes(block.lang)) continue
    const lang = block.lang ?? 'js'
    inspectScript(source, { text: block.content, offset: block.loc.start.offset, lang, setup: Boolean(block.setup) }, seen)
  }
  // A script that ends too early, at a closing tag inside a string, makes the parser stumble much further down.
  if (seen.errors.length > scriptsBefore && seen.errors.some((e) => e.endsScriptEarly)) return
  inspectTemplate(source, descriptor, errors, seen)
  for (const block of descriptor.styles) {
    const style = { text: block.content, offset: block.loc.start.offset }
    seen.styles.push(style)
    if (!block.src && ['css', undefined].includes(block.lang)) inspectStyle(source, style, seen)
  }
  seen.exports.push('default')
}

/** Text outside the blocks is ignored by the Vue compiler, a fence around or between them included. */
function fenceOutsideBlocks(source, descriptor) {
  const blocks = [descriptor.template, descriptor.script, descriptor.scriptSetup, ...descriptor.styles, ...descriptor.customBlocks]
  const inside = (offset) => blocks.some((b) => b && b.loc.start.offset <= offset && offset < b.loc.end.offset)
  for (const match of source.text.matchAll(/^[ \t]*(?:```|~~~)/gm)) {
    const offset = match.index + match[0].search(/[`~]/)
    if (!inside(offset)) {
      return refusal('PAGE_SOURCE_FENCED', 'The source is wrapped in a Markdown code fence.', { source, offset })
    }
  }
  return null
}
