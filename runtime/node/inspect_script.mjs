/**
 * Reads a script with the parser that Vite uses: syntax, imports, and what no page may use (X2).
 */
import { parseSync } from 'vite'
import { DEPTH_MAX, vet } from './depth.mjs'
import { refusal } from './errors.mjs'
import { inspectScriptEnvironment } from './inspect_environment.mjs'
import { assetsIn } from './inspect_template.mjs'
import { childrenOf, walk } from './syntax_tree.mjs'

/**
 * Adds to `seen`: errors, imports `{specifier, offset, names: [{name, offset}]}`, exports, assets, `asyncSetup`.
 * `block` is `{text, offset, lang, setup}`; offsets in `seen` count from the start of the whole source.
 */
export function inspectScript(source, block, seen) {
  const vetted = vet(block)
  if (vetted?.tooDeep) return void seen.errors.push(tooDeep(source, block))
  const options = { lang: block.lang, sourceType: 'module', showSemanticErrors: true }
  const parsed = vetted ?? parseSync(`page.${block.lang}`, block.text, options)
  if (parsed.errors.length) {
    if (!vetted && block.lang === 'js' && isTypeScript(block.text)) return void seen.errors.push(typesInJavaScript(source, block, parsed.errors[0]))
    for (const error of causes(parsed.errors)) seen.errors.push(syntaxError(source, block, error))
    return
  }
  if (block.lang === 'tsx') {
    seen.program = parsed.program
    if (treeDepth(parsed.program) > DEPTH_MAX) return void seen.errors.push(tooDeep(source, block))
  }
  readImports(source, block, parsed.module, seen)
  readExports(source, block, parsed.module, seen)
  if (block.lang === 'tsx' && block.text.includes('@assets/')) readJsxAssets(block, parsed.program, seen)
  for (const meta of parsed.module.importMetas) {
    const message = 'import.meta is not available in a page.'
    const hint = 'Remove it: a page has no environment and no files beside it. Import assets from @assets/<file>.'
    seen.errors.push(refusal('PAGE_SOURCE_NOT_ALLOWED', message, { source, offset: block.offset + meta.start, hint }))
  }
  for (const comment of parsed.comments) {
    if (block.lang !== 'tsx' || !/@jsx/.test(comment.value)) continue
    const message = 'A page may not choose how its JSX is compiled.'
    const hint = 'Remove the comment.'
    seen.errors.push(refusal('PAGE_SOURCE_NOT_ALLOWED', message, { source, offset: block.offset + comment.start, hint }))
  }
  inspectScriptEnvironment(source, block, parsed.program, seen)
  if (/\brequire\b/.test(block.text)) readRequires(source, block, parsed.program, seen)
  if (block.setup && /\bawait\b/.test(block.text)) seen.asyncSetup ||= awaitsAtTopLevel(parsed.program)
}

/** An element that is not closed makes the parser stumble over everything behind it. */
function causes(errors) {
  const unclosed = errors.filter((error) => /JSX closing tag/.test(error.message))
  return unclosed.length ? unclosed : errors
}

const isTypeScript = (text) => parseSync('page.ts', text, { lang: 'ts', sourceType: 'module' }).errors.length === 0

function typesInJavaScript(source, block, error) {
  const offset = block.offset + (error.labels[0]?.start ?? 0)
  return refusal('PAGE_SCRIPT_SYNTAX', 'This is TypeScript in a script without lang="ts".', { source, offset })
}

function treeDepth(program) {
  let deepest = 0
  const waiting = [[program, 1]]
  while (waiting.length) {
    const [node, depth] = waiting.pop()
    deepest = Math.max(deepest, depth)
    for (const child of childrenOf(node)) waiting.push([child, depth + 1])
  }
  return deepest
}

function tooDeep(source, block) {
  const message = 'The script is nested too deeply.'
  return refusal('PAGE_SOURCE_TOO_LARGE', message, { source, offset: block.offset, hint: 'Nest less: split it into components.' })
}

function syntaxError(source, block, error) {
  // Of two declarations that contradict each other the later one is at fault.
  const start = error.labels.at(/already been declared/.test(error.message) ? -1 : 0)?.start ?? 0
  const offset = block.offset + start
  const cutByTag = /^unterminated/i.test(error.message) && source.text.startsWith('</script', block.offset + block.text.length)
  if (cutByTag && block.lang !== 'tsx' && !block.text.slice(start).includes('\n')) {
    const message = 'The closing script tag inside this string ends the script.'
    const hint = 'Write it as "<\\/script>" inside strings and comments.'
    return { ...refusal('PAGE_SCRIPT_SYNTAX', message, { source, offset, hint }), endsScriptEarly: true }
  }
  const help = error.helpMessage ? ` ${error.helpMessage}` : ''
  return refusal('PAGE_SCRIPT_SYNTAX', `${error.message}.${help}`.replace(/([.?])\.(?=\s|$)/g, '$1'), { source, offset })
}

function readImports(source, block, module, seen) {
  for (const entry of module.staticImports) {
    seen.imports.push({
      specifier: entry.moduleRequest.value,
      offset: block.offset + entry.moduleRequest.start,
      names: entry.entries.map((e) => importedName(block, e.importName)).filter(Boolean),
    })
  }
  for (const { entries } of module.staticExports) {
    const from = entries.find((e) => e.moduleRequest)?.moduleRequest
    if (!from) continue
    const names = entries.map((e) => importedName(block, e.importName)).filter(Boolean)
    seen.imports.push({ specifier: from.value, offset: block.offset + from.start, names })
  }
  for (const { moduleRequest } of module.dynamicImports) {
    const offset = block.offset + moduleRequest.start
    const specifier = literal(block.text.slice(moduleRequest.start, moduleRequest.end))
    if (specifier !== null) seen.imports.push({ specifier, offset, names: [] })
    else {
      const message = 'import() needs a plain string.'
      seen.errors.push(refusal('PAGE_IMPORT_NOT_ALLOWED', message, { source, offset }))
    }
  }
}

function readExports(source, block, module, seen) {
  const names = module.staticExports.flatMap((e) => e.entries.map((entry) => ({ ...entry.exportName, start: e.start })))
  const defaults = names.filter(({ kind }) => kind === 'Default')
  seen.exports.push(...names.filter(({ kind }) => kind === 'Name').map(({ name }) => name))
  if (defaults.length && block.lang === 'tsx') seen.exports.push('default')
  if (defaults.length < 2) return
  const offset = block.offset + defaults[1].start
  seen.errors.push(refusal('PAGE_SCRIPT_SYNTAX', 'A module can have only one default export.', { source, offset }))
}

function readJsxAssets(block, program, seen) {
  walk(program, (node) => {
    if (node.type === 'JSXAttribute' && node.value?.type === 'Literal' && typeof node.value.value === 'string') {
      for (const specifier of assetsIn(String(node.name.name), node.value.value)) {
        seen.assets.push({ specifier, offset: block.offset + node.start })
      }
    }
    return true
  })
}

function importedName(block, { kind, name, start }) {
  if (kind === 'Default') return { name: 'default', offset: block.offset + start }
  if (kind === 'Name') return { name, offset: block.offset + start }
  return null
}

function literal(text) {
  const match = /^\s*(['"])([^'"\\\n]*)\1\s*$/.exec(text)
  return match ? match[2] : null
}

function readRequires(source, block, program, seen) {
  walk(program, (node) => {
    if (node.type !== 'CallExpression' || !isRequire(node.callee)) return true
    const message = 'require() is not available in a page.'
    const hint = 'Use an import statement at the top of the script.'
    seen.errors.push(refusal('PAGE_SOURCE_NOT_ALLOWED', message, { source, offset: block.offset + node.start, hint }))
    return true
  })
}

/** `require`, or something of it, as in `require.resolve`. */
function isRequire(callee) {
  const named = callee.type === 'MemberExpression' ? callee.object : callee
  return named.type === 'Identifier' && named.name === 'require'
}

function awaitsAtTopLevel(program) {
  let found = false
  walk(program, (node) => {
    if (/Function|^MethodDefinition$|^StaticBlock$/.test(node.type)) return false
    found ||= node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)
    return !found
  })
  return found
}

/** Visits every node; a visitor that answers false is not led further down. */
const ASSIGNS = new Set(['AssignmentExpression', 'ForInStatement', 'ForOfStatement'])

/** Where a name that a block declares with `const` is given another value, in the whole source, or null. */
export function firstWrite(block, name) {
  let place = null
  walk(parseSync(`page.${block.lang}`, block.text, { lang: block.lang, sourceType: 'module' }).program, (node) => {
    const written = ASSIGNS.has(node.type) ? node.left : node.type === 'UpdateExpression' ? node.argument : null
    if (written) walk(written, (part) => {
      if (part.type === 'Identifier' && part.name === name) place ??= block.offset + node.start
      return part.type !== 'MemberExpression' && part.type !== 'VariableDeclaration'
    })
    return place === null
  })
  return place
}
