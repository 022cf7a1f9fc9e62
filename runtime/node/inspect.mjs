/**
 * Reads the author's sources before Vite does (V8, X2): everything that can be refused is refused here, because here it
 * can be located; what Vite says later speaks of compiled code.
 *
 * Starts at the entry and follows imports through the artifact, so that only modules the page really uses are read.
 */
import { parse as parseVue } from 'vue/compiler-sfc'
import { refusal } from './errors.mjs'
import { judge, judgeAddress, judgeStray } from './imports.mjs'
import { inspectScript } from './inspect_script.mjs'
import { inspectStyle } from './inspect_style.mjs'
import { inspectBlocks, inspectTemplate } from './inspect_template.mjs'

const SOURCE_CHARS_MAX = 4 * 1024 * 1024

/**
 * `{paths, errors, modules, asyncSetup}`: the modules that the page uses in the order they were met, the located errors,
 * what was seen in each module (imports, exports, styles, the Vue descriptor or the syntax tree), whether one of them awaits in its setup, and whether one uses the kit.
 */
export function inspect(task) {
  const found = { paths: [], errors: [], modules: new Map(), asyncSetup: false, kit: false }
  const waiting = [task.entry]
  const met = new Set(waiting)
  while (waiting.length) {
    const logical = waiting.shift()
    const source = task.source(logical)
    const seen = inspectModule(source)
    found.paths.push(logical)
    found.modules.set(logical, seen)
    found.errors.push(...seen.errors)
    found.asyncSetup ||= seen.asyncSetup
    const meanings = [
      ...seen.imports.map((use) => ({ ...judge(use.specifier, logical, task), offset: use.offset })),
      ...seen.assets.map((use) => ({ ...judgeAddress(use.specifier, task), offset: use.offset })),
      ...seen.strays.map((use) => ({ ...judgeStray(use.address, task), offset: use.offset })),
    ]
    for (const { code, message, hint, offset, module, kit } of meanings) {
      found.kit ||= kit !== undefined
      if (code) found.errors.push(refusal(code, message, { source, offset, hint }))
      else if (module && !met.has(module)) {
        met.add(module)
        waiting.push(module)
      }
    }
  }
  return found
}

function inspectModule(source) {
  const seen = { errors: [], imports: [], exports: [], styles: [], assets: [], strays: [], asyncSetup: false }
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
  const other = anotherKindOfFile(source)
  if (other) return other
  const lastLine = text.lastIndexOf('\n', text.trimEnd().length - 1) + 1
  const starts = source.path.endsWith('.tsx') ? [0, lastLine] : [0]
  for (const start of starts) {
    const offset = start + text.slice(start).search(/\S/)
    if (/^(?:```|~~~)/.test(text.slice(offset, offset + 3))) return fenced(source, offset)
  }
  return null
}

/** Right in itself, and under the wrong name: what the parsers would say of it leads nobody to that. */
function anotherKindOfFile(source) {
  const { text } = source
  const offset = text.search(/\S/)
  const refused = (message, hint) => refusal('PAGE_SOURCE_NOT_ALLOWED', message, { source, offset, hint })
  const start = text.slice(offset, offset + 4000).replace(/^(?:<!--.*?-->\s*)+/s, '')
  const react = source.path.endsWith('.tsx')
  if (/^<(?:!doctype\s|html[\s>])/i.test(start)) {
    const hint = react
      ? 'Write a TSX module: return what is inside <body> as JSX from `export default function Page() { … }`.'
      : 'Write a Vue component: put what is inside <body> into <template>, scripts into <script setup>, styles into <style>.'
    return refused('The source is a whole HTML document.', hint)
  }
  if (react && /^<(?:template|script)[\s>]/.test(start)) {
    return refused('The source is a Vue component in a file that is named .tsx.', 'Write it as a TSX module, or send it as .vue.')
  }
  const opens = /^(?:import|export|const|function)\b|^['"]use client['"]/.test(start)
  if (!react && opens && !/^<(?:template|script)[\s>]/m.test(text)) {
    const hint = 'Write it as a Vue component with <script setup> and <template>, or send it as .tsx when it is React.'
    return refused('The source is a script alone in a file that is named .vue.', hint)
  }
  return null
}

const fenced = (source, offset) =>
  refusal('PAGE_SOURCE_FENCED', 'The source is wrapped in a Markdown code fence.', { source, offset })

function inspectVue(source, seen) {
  const { descriptor, errors } = parseVue(source.text, { filename: source.path })
  seen.descriptor = descriptor
  readPostcssAsCss(descriptor)
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

/** Written by habit for `@apply`; what is in it is CSS. */
function readPostcssAsCss(descriptor) {
  for (const block of descriptor.styles) if (block.lang === 'postcss') block.lang = block.attrs.lang = 'css'
}

/** Text outside the blocks is ignored by the Vue compiler, a fence around or between them included. */
function fenceOutsideBlocks(source, descriptor) {
  const blocks = [descriptor.template, descriptor.script, descriptor.scriptSetup, ...descriptor.styles, ...descriptor.customBlocks]
  const inside = (offset) => blocks.some((b) => b && b.loc.start.offset <= offset && offset < b.loc.end.offset)
  for (const match of source.text.matchAll(/^[ \t]*(?:```|~~~)/gm)) {
    const offset = match.index + match[0].search(/[`~]/)
    if (!inside(offset)) return fenced(source, offset)
  }
  return null
}
