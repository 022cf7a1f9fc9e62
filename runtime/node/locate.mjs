/**
 * Turns what Vite and its plugins throw into errors in the author's source (V8).
 *
 * They speak of compiled code, of blocks as if they were files, or of no place at all; the inspection has kept enough of
 * the source to do better. What is left without a place still names its file.
 */
import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { compileTemplate, parse as parseVue } from 'vue/compiler-sfc'
import { refusal } from './errors.mjs'
import { Refused } from './guard.mjs'
import { judge, nearNames } from './imports.mjs'
import { firstWrite } from './inspect_script.mjs'
import { templateError } from './inspect_template.mjs'
import { markJsx, unmarked } from './mark.mjs'

export function locate(thrown, task, found) {
  const all = Array.isArray(thrown?.errors) && thrown.errors.length ? thrown.errors : [thrown]
  const foreign = all.filter((error) => !isOurs(error))
  const located = foreign.flatMap((error) => locateOne(error, task, found))
  if (located.length || found.errors.length) return located
  return [refusal('PAGE_COMPILE_FAILED', 'The compiler gave up without a reason.', { source: task.source(task.entry), offset: 0 })]
}

/** The build was ended by the guard, which has put its error where it belongs. */
function isOurs(error) {
  return error instanceof Refused || error?.cause instanceof Refused || error?.name === 'Refused'
}

function locateOne(error, task, found) {
  if (error.code === 'MISSING_EXPORT') return [missingExport(error, task, found)]
  const logical = task.logicalOf(error.id ?? error.loc?.file ?? fileInMessage(error.message))
  const message = plainMessage(error, task, found)
  if (!logical) return [refusal('PAGE_COMPILE_FAILED', message, { source: task.source(task.entry), offset: 0 })]
  const source = task.source(logical)
  if (/[?&]type=style/.test(error.id ?? '')) return [styleError(error, message, source, found.modules.get(logical)?.styles)]
  if (error.plugin === 'vite:vue') return vueErrors(error, message, source)
  return [scriptError(error, message, source, task, found)]
}

/** Rolldown draws the file into the message when its own transform fails, and gives it nowhere else. */
function fileInMessage(message) {
  const drawn = /\[ (.+):\d+:\d+ \]/.exec(stripVTControlCharacters(String(message)))
  return drawn ? path.resolve(drawn[1]) : ''
}

/** The line is right, because marks add none; the column counts the marks that stand before it. */
function scriptError(error, message, source, task, found) {
  if (error.code === 'ILLEGAL_REASSIGNMENT') return reassigned(message, source, found.modules.get(source.path))
  if (found.modules.get(source.path)?.descriptor) return compiledError(error, message, source, found.modules.get(source.path))
  if (!error.loc?.line) return refusal('PAGE_COMPILE_FAILED', message, { source, offset: 0, plugin: error.plugin })
  const marked = source.path.endsWith('.tsx') ? markJsx(source, found.modules.get(source.path), task).code : source.text
  const before = unmarked(marked.split('\n')[error.loc.line - 1]?.slice(0, error.loc.column ?? 0) ?? '')
  const offset = source.offsetOf(error.loc.line, before.length + 1)
  return refusal('PAGE_SCRIPT_SYNTAX', message, { source, offset, plugin: error.plugin })
}

/** Vue has made other code of it by now, whose lines are nowhere in the file; types are what its compiler lets through. */
function compiledError(error, message, source, { descriptor }) {
  const { template } = descriptor
  const types = template && /TypeScript/.test(message) ? template.content.search(/\bas\s+(?:const\b|\w)|\w!(?:\.|\))|\((?:\w+\s*:\s*\w+)/) : -1
  const offset = types !== -1 ? template.loc.start.offset + types : (descriptor.scriptSetup ?? descriptor.script ?? template)?.loc.start.offset
  return refusal('PAGE_SCRIPT_SYNTAX', message, { source, offset: offset ?? 0, plugin: error.plugin })
}

/** Rolldown counts in code that Vue or React has rewritten by then; the name it gives is the author's. */
function reassigned(message, source, { descriptor }) {
  const name = /`([^`]+)`/.exec(message)?.[1] ?? ''
  const blocks = descriptor
    ? [descriptor.script, descriptor.scriptSetup].filter(Boolean).map((b) => ({ text: b.content, offset: b.loc.start.offset, lang: b.lang ?? 'js' }))
    : [{ text: source.text, offset: 0, lang: 'tsx' }]
  const offset = blocks.map((block) => firstWrite(block, name)).find((place) => place !== null) ?? 0
  const value = descriptor ? 'a `ref()`' : 'state (`useState`)'
  const hint = `Declare it with \`let\`; when the page shows how it changes, make it ${value}.`
  return refusal('PAGE_SCRIPT_SYNTAX', `${message.replace(/\.$/, '')}.`, { source, offset, hint })
}

/** Rolldown names both modules; the import table knows where the name was written. */
function missingExport(error, task, found) {
  const name = /"([^"]+)" is not exported/.exec(stripVTControlCharacters(error.message))?.[1] ?? 'default'
  const exporter = task.logicalOf(error.exporter)
  const importer = task.logicalOf(error.id)
  const what = name === 'default' ? 'has no default export' : `does not export "${name}"`
  if (!importer) {
    const source = task.source(task.entry)
    const offset = Math.max(0, source.text.search(/^[ \t]*export\b/m))
    const hint = 'Write the component of the page as `export default function Page() { … }`.'
    return refusal('PAGE_EXPORT_NOT_FOUND', `The page ${what}.`, { source, offset, hint })
  }
  const source = task.source(importer)
  const written = (found.modules.get(importer)?.imports ?? []).filter((i) => judge(i.specifier, importer, task).module === exporter)
  const place = written.flatMap((i) => i.names).find((n) => n.name === name) ?? written[0]
  const exported = found.modules.get(exporter)?.exports ?? []
  const near = nearNames(name, exported)
  const spelled = written[0]?.specifier ?? `@${exporter}`
  const only = exported.length === 1 && exported[0] === 'default'
  const hint = only
    ? `It has a default export only: import ${/^[A-Z]\w*$/.test(name) ? name : 'Name'} from "${spelled}".`
    : name === 'default' && exported.length
      ? `Import by name: import { ${exported.slice(0, 12).join(', ')} } from "${spelled}".`
      : near.length
    ? `Did you mean ${near.join(' or ')}?`
    : `It exports ${exported.length ? exported.slice(0, 12).join(', ') : 'nothing'}: import one of these, or add the export there.`
  const specifier = spelled
  return refusal('PAGE_EXPORT_NOT_FOUND', `"${specifier}" ${what}.`, { source, offset: place?.offset ?? 0, hint })
}

/** Tailwind says which class, function or at-rule it did not like, and nowhere where it stood. */
function styleError(error, message, source, styles = []) {
  const index = Number(/[?&]index=(\d+)/.exec(error.id)?.[1] ?? 0)
  const style = styles[index] ?? { offset: 0, text: source.text }
  const quoted = [...message.matchAll(/`([^`]+)`/g)].flatMap((m) => [m[1], m[1].replace(/^@?\w+ ?\(|\)$/g, '')])
  const at = quoted.map((words) => placeInStyle(style.text, words, /utility class/.test(message))).find((position) => position !== -1) ?? 0
  return refusal('PAGE_STYLE_SYNTAX', `${message.replace(/\.$/, '')}.`, { source, offset: style.offset + at, plugin: error.plugin })
}

/** A class of `@apply` may be the name of a rule too, and stand there first. */
function placeInStyle(text, words, applied) {
  if (!applied) return text.indexOf(words)
  for (const { 0: rule, index } of text.matchAll(/@apply\b[^;}]*/g)) {
    const at = ` ${rule.replace(/\s/g, ' ')} `.indexOf(` ${words} `)
    if (at !== -1) return index + at
  }
  return text.indexOf(words)
}

function vueErrors(error, message, source) {
  const framed = placeInFrame(stripVTControlCharacters(error.message))
  if (framed) {
    const offset = source.offsetOf(framed.line, framed.column)
    return [refusal('PAGE_SCRIPT_SYNTAX', message, { source, offset, plugin: 'vue' })]
  }
  const offset = error.loc?.line ? source.offsetOf(error.loc.line, error.loc.column) : 0
  const first = templateError(source, { message, loc: { start: { offset } } })
  // The plugin stops at the first error of a template; the compiler itself would have told them all.
  return [first, ...templateErrors(source).filter((e) => e.line !== first.line || e.message !== first.message)]
}

function templateErrors(source) {
  const { descriptor } = parseVue(source.text, { filename: source.path, sourceMap: false })
  if (!descriptor.template?.ast) return []
  const typescript = (descriptor.scriptSetup ?? descriptor.script)?.lang === 'ts'
  const { errors } = compileTemplate({
    source: descriptor.template.content,
    ast: descriptor.template.ast,
    filename: source.path,
    id: 'page',
    transformAssetUrls: false,
    compilerOptions: { expressionPlugins: typescript ? ['typescript'] : [] },
  })
  return errors
    .filter((e) => e.loc)
    .map((e) => templateError(source, e))
}

/** The Vue compiler draws the line of the whole file into its messages: `12  |  text`, and carets below. */
function placeInFrame(message) {
  const lines = message.split('\n')
  for (const [index, text] of lines.entries()) {
    const caret = /^\s*\|  ( *)\^/.exec(text)
    const above = index > 0 && /^(\d+)\s*\|  (.*)$/.exec(lines[index - 1])
    // A caret behind the end of its line stands for the line break; the next one is the place.
    if (caret && above && caret[1].length < above[2].length) return { line: Number(above[1]), column: caret[1].length + 1 }
  }
  return null
}

/** The first paragraph without frames, and without anything of this machine. */
function plainMessage(error, task, found) {
  let text = stripVTControlCharacters(String(error.message).slice(0, 20_000)).split(/\n\n|\n {0,20}╭/)[0]
  text = text.replace(/^\[(?:@?vue\/compiler-sfc|builtin:[\w-]+|[A-Z_]+)\]\s*/, '').replace(/\s*\(\d+:\d+\)\s*$/, '')
  for (const logical of found.paths) text = text.replaceAll(task.file(logical), logical)
  for (const folder of [task.dir, path.relative(process.cwd(), task.dir), import.meta.dirname]) {
    if (folder) text = text.replaceAll(`${folder}/`, '').replaceAll(folder, '')
  }
  return text.replace(/[^\s"'`()]*node_modules[^\s"'`()]*/g, 'a package').trim()
}
