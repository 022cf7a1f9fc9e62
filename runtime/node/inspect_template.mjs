/**
 * Reads the blocks and the template of a Vue file: what may stand in it, and the errors of its parser.
 */
import { refusal } from './errors.mjs'
import { inspectTemplateEnvironment } from './inspect_environment.mjs'

const ATTRIBUTES = {
  template: new Set(['lang']),
  script: new Set(['setup', 'lang', 'generic', 'name', 'inheritAttrs', 'inherit-attrs', 'type']),
  style: new Set(['scoped', 'module', 'lang', 'type']),
}
const LANGS = { template: new Set(['html']), script: new Set(['js', 'ts']), style: new Set(['css']) }
const LANGS_HINT = {
  template: 'Write the template as HTML.',
  script: 'Use lang="ts", or no lang for JavaScript.',
  style: 'Write plain CSS; nesting works. Tailwind classes and @apply work too.',
}

/** Unknown blocks, languages and attributes are refused: each of them is a way to have another file read (X2). */
export function inspectBlocks(source, descriptor, seen) {
  const refuse = (block, message, hint) => {
    const offset = source.text.lastIndexOf('<', Math.max(0, block.loc.start.offset - 1))
    seen.errors.push(refusal('PAGE_SOURCE_NOT_ALLOWED', message, { source, offset, hint }))
  }
  for (const block of descriptor.customBlocks) {
    refuse(block, `A <${block.type}> block is not available in a page.`)
  }
  const blocks = [descriptor.template, descriptor.script, descriptor.scriptSetup, ...descriptor.styles].filter(Boolean)
  for (const block of blocks) {
    if (block.src !== undefined) {
      refuse(block, `<${block.type} src> is not available.`, 'Write the content inside the block.')
    } else if (block.lang !== undefined && !LANGS[block.type].has(block.lang)) {
      refuse(block, `<${block.type} lang="${block.lang}"> is not available.`, LANGS_HINT[block.type])
    } else {
      const unknown = Object.keys(block.attrs).find((name) => !ATTRIBUTES[block.type].has(name))
      if (unknown) refuse(block, `<${block.type} ${unknown}> is not available.`, `Remove the attribute "${unknown}".`)
    }
  }
}

/** Errors of the parser, and assets named by static attributes. */
export function inspectTemplate(source, descriptor, errors, seen) {
  seen.errors.push(...causes(source, errors.map((error) => templateError(source, error))))
  if (!errors.length && descriptor.template?.ast) {
    readAddresses(descriptor.template.ast, source, seen)
    inspectTemplateEnvironment(source, descriptor.template.ast, seen)
  }
}

/** One slip makes the parser miss the end of every element around it: tell the slip, not what follows from it. */
function causes(source, errors) {
  const cause = errors.filter((error) => /Interpolation end sign|EOF in tag/.test(error.message))
  if (!cause.length) return errors
  const quote = cause.some((error) => /EOF in tag/.test(error.message)) ? unclosedQuote(source) : null
  if (quote !== null) return [refusal('PAGE_TEMPLATE_SYNTAX', 'The quote of an attribute is not closed.', { source, offset: quote, plugin: 'vue' })]
  return errors.filter((error) => !/missing end tag/.test(error.message))
}

/** Where an attribute begins whose value runs on into the next tag, or null. */
function unclosedQuote(source) {
  const start = Math.max(0, source.text.search(/^<template/m))
  for (const tag of source.text.slice(start).matchAll(/<[A-Za-z][\w-]*((?:\s+[^\s"'<>=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>]+))?)*)/g)) {
    for (const value of tag[1].matchAll(/([^\s"'<>=]+)\s*=\s*("[^"]*"|'[^']*')/g)) {
      if (/>[^]*<\/?[a-z]/i.test(value[2])) return start + tag.index + tag[0].length - tag[1].length + value.index
    }
    const end = start + tag.index + tag[0].length
    const open = /^\s*(?:[^\s"'<>=]+)?\s*=\s*(["'])/.exec(source.text.slice(end))
    if (open && source.text.indexOf(open[1], end + open[0].length) === -1) return end + open[0].length - 1
  }
  return null
}

/**
 * An error of the template compiler. Those of expressions end in a place inside the expression, which was parsed with one
 * character before it: `(1:3)` is its third character.
 */
export function templateError(source, { message, loc }) {
  const inside = / \((\d+):(\d+)\)\.?$/.exec(message)
  let offset = loc?.start?.offset ?? 0
  if (inside) {
    const { line, column } = source.at(offset)
    const [lines, columns] = [Number(inside[1]) - 1, Number(inside[2])]
    offset = lines ? source.offsetOf(line + lines, columns + 1) : source.offsetOf(line, column + Math.max(0, columns - 1))
  }
  const plain = message.replace(inside?.[0] ?? '', '').replace(` ${source.path}`, '').replace(/\.$/, '')
  return refusal('PAGE_TEMPLATE_SYNTAX', `${plain}.`, { source, offset, plugin: 'vue' })
}

const ELEMENTS_OF_FILES = new Set(['audio', 'embed', 'image', 'img', 'input', 'source', 'track', 'use', 'video'])
const NAMES_OF_ADDRESSES = new Set(['src', 'srcset', 'poster', 'href', 'xlink:href'])

function readAddresses(node, source, seen, verbatim = false) {
  for (const prop of node.props ?? []) {
    if (prop.type !== 6 || !prop.value) continue
    if (/^[^=]+=\s*\{/.test(prop.loc.source)) {
      const message = `The attribute ${prop.name} is written in JSX.`
      seen.errors.push(refusal('PAGE_TEMPLATE_SYNTAX', message, { source, offset: prop.loc.start.offset, plugin: 'vue' }))
    }
    const { content } = prop.value
    for (const specifier of assetsIn(prop.name, content)) seen.assets.push({ specifier, offset: prop.loc.start.offset })
    // Nothing lies beside a page: such an address can lead nowhere.
    if (ELEMENTS_OF_FILES.has(node.tag) && NAMES_OF_ADDRESSES.has(prop.name) && /^\s*(?:\.{1,2}\/|~|@\/)/.test(content)) {
      seen.strays.push({ address: content.trim(), offset: prop.loc.start.offset })
    }
  }
  const shown = verbatim || /^(?:code|kbd|pre|samp|textarea)$/.test(node.tag) || (node.props ?? []).some((p) => p.type === 7 && p.name === 'pre')
  for (const child of node.children ?? []) {
    if (typeof child !== 'object') continue
    if (child.type !== 2) readAddresses(child, source, seen, shown)
    else if (!shown) readText(child, source, seen)
  }
}

const JSX_LOOP = /\{\s*[\w.]{1,80}\.map\(\s*\(?[\w\s,{}[\]]{0,80}\)?\s*=>/

/** Vue shows it as text: the page would come out with pieces of code in it. */
function readText(node, source, seen) {
  const at = node.content.includes('.map(') ? node.loc.source.search(JSX_LOOP) : -1
  if (at === -1) return
  const message = 'This loop is written in JSX.'
  seen.errors.push(refusal('PAGE_TEMPLATE_SYNTAX', message, { source, offset: node.loc.start.offset + at, plugin: 'vue' }))
}

// Bounded, every repetition of them: a hostile source must not find one that takes for ever.
const IN_STYLE = /(url\(\s{0,20}["']?)(@assets\/[^"'()\n]{1,300}?)(?=["']?\s{0,20}\))/g
const IN_SRCSET = /((?:^|,)\s{0,20})(@assets\/\S{1,300})/g
const WHOLE = /^(\s{0,20})(@assets\/[^\n]{1,300}?)(?=\s{0,20}$)/g
const NEVER = /(?!)/g
const TEXTS = /^(?:alt|class|id|label|placeholder|title|aria-.*)$/

function patternFor(name) {
  if (name === 'style') return IN_STYLE
  if (TEXTS.test(name)) return NEVER
  return /srcset$/i.test(name) ? IN_SRCSET : WHOLE
}

/** The assets that a static attribute names: a whole address, a `srcset`, or `url()` in a style. */
export function assetsIn(name, value) {
  return [...value.matchAll(patternFor(name))].map((match) => match[2])
}

/** The same attribute with the addresses that the page will use. */
export function withAssetUrls(name, value, urlOf) {
  return value.replace(patternFor(name), (_, before, specifier) => before + urlOf(specifier))
}
