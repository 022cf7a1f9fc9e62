/**
 * Reads CSS and refuses what would read a file, run a configuration, or leave the page (X2).
 *
 * Tailwind and Vite act on at-rules, `url()` and their relatives, CSS-module imports and source-map comments; an
 * allow-list names what is left. Addresses of assets are written as `ASSET_ORIGIN` while Vite works, because Vite looks
 * for files behind every address that is not absolute, and become `/assets/…` in the output.
 */
import postcss from 'postcss'
import { bracketDepth } from './depth.mjs'
import { refusal } from './errors.mjs'
import { assetFolder, assetUrl, judgeAddress } from './imports.mjs'

const ASSET_ORIGIN = 'https://assets.pagegate.invalid/'

const AT_RULES = new Set([
  'apply', 'charset', 'color-profile', 'container', 'counter-style', 'custom-variant', 'font-face', 'font-feature-values',
  'font-palette-values', 'function', 'keyframes', 'layer', 'media', 'page', 'position-try', 'property', 'reference', 'scope',
  'starting-style', 'supports', 'variant', 'view-transition',
]) // prettier-ignore
const NO_EFFECT =
  'Use an arbitrary value in the class (bg-[#f01234]), or a CSS variable of your own (bg-(--brand)): what a page adds to the theme would not reach its classes.'
const LINE_COMMENT = '"//" begins no comment of CSS.'
const TAILWIND_IS_THERE = 'Remove it: Tailwind is loaded already, and its classes and @apply work everywhere.'
/** What follows takes quadratic time, and a minute for 50,000. */
const DEPTH_MAX = 500
const URL_FUNCTION = /\b(?:url|src)\(/gi
const FUNCTIONS_OF_STRINGS = /(?:image-set|image|cross-fade|src)\(/i

/** Adds the errors and `@assets` of a style block to `seen`. */
export function inspectStyle(source, block, seen) {
  const place = (offset) => ({ source, offset: block.offset + offset })
  const refuse = (message, offset, hint, code = 'PAGE_STYLE_NOT_ALLOWED') =>
    seen.errors.push(refusal(code, message, { ...place(offset), hint }))

  const comment = block.text.search(/sourceMappingURL/i)
  if (comment !== -1) return void refuse('A source map may not be named in a style.', comment, 'Remove the comment.')
  if (bracketDepth(block.text) > DEPTH_MAX) {
    return void refuse('The style is nested too deeply.', 0, 'Nest less: write rules beside each other.', 'PAGE_SOURCE_TOO_LARGE')
  }
  let root
  try {
    root = postcss.parse(block.text, { map: false })
  } catch (error) {
    if (error.name !== 'CssSyntaxError') throw error
    const offset = error.input?.offset ?? offsetIn(block.text, error.line ?? 1, error.column ?? 1)
    return void seen.errors.push(refusal('PAGE_STYLE_SYNTAX', `${error.reason}.`, place(offset)))
  }
  root.walk((node) => {
    const offset = node.source.start.offset
    if (node.type === 'atrule') inspectAtRule(node, offset, refuse)
    else if (node.type === 'rule') {
      if (/:(?:import|export)\b/i.test(node.selector)) refuse('CSS module imports are not available.', offset)
      if (/^\s*\/\//.test(node.selector)) refuse(LINE_COMMENT, offset, undefined, 'PAGE_STYLE_SYNTAX')
    } else if (node.type === 'decl') {
      if (node.prop.startsWith('//')) refuse(LINE_COMMENT, offset, undefined, 'PAGE_STYLE_SYNTAX')
      else if (node.prop.startsWith('$') || /(?:^|[\s(,])\$[A-Za-z]/.test(node.value.replace(/"[^"]*"|'[^']*'/g, ''))) {
        refuse(`"${node.prop}: ${node.value.slice(0, 60)}" holds a variable of Sass.`, offset, undefined, 'PAGE_STYLE_SYNTAX')
      }
      const problem = valueProblem(node.prop, node.value)
      if (problem) refuse(problem.message, offset, problem.hint, problem.code)
      for (const url of urlsIn(node.value)) {
        if (url.startsWith('@assets/')) seen.assets.push({ specifier: url, offset: block.offset + offset })
      }
    }
  })
}

function inspectAtRule(node, offset, refuse) {
  const name = node.name.toLowerCase().replace(/^-(?:webkit|moz|ms|o)-/, '')
  if (name === 'tailwind' || (name === 'import' && /^["']tailwindcss/.test(node.params))) {
    refuse(`@${node.name} is not available in a page's style.`, offset, TAILWIND_IS_THERE)
  } else if (name === 'theme' || name === 'utility') {
    refuse(`@${node.name} is not available in a page's style.`, offset, NO_EFFECT)
  } else if (name === 'reference' && !/^["']tailwindcss["']$/.test(node.params.trim())) {
    refuse('@reference may only name "tailwindcss".', offset, TAILWIND_IS_THERE)
  } else if (!AT_RULES.has(name)) {
    refuse(`@${node.name} is not available in a page's style.`, offset)
  } else if (/url\s*\(|\\/i.test(node.params)) {
    refuse(`@${node.name} may not hold an address or an escape.`, offset)
  }
}

/** Why a declaration is refused, or null. */
export function valueProblem(property, value) {
  if (property.toLowerCase() === 'composes' && /\bfrom\b/i.test(value)) {
    return { code: 'PAGE_STYLE_NOT_ALLOWED', message: '"composes … from" is not available.' }
  }
  if (/\\/.test(value.replace(/"[^"]*"|'[^']*'/g, '')) && value.includes('(')) {
    return { code: 'PAGE_STYLE_NOT_ALLOWED', message: 'A function of CSS may not be written with escapes.' }
  }
  const bad = urlsIn(value).find((url) => !allowedUrl(url))
  if (bad === undefined) return null
  return {
    code: 'PAGE_ASSET_NOT_ALLOWED',
    message: `The address "${bad.slice(0, 80)}" does not lead to an asset.`,
    hint: 'Write url("@assets/<file>") and upload the file as an asset.',
  }
}

/** Addresses of the web are left to the render, which blocks and reports them (X1). */
const allowedUrl = (url) => /^(?:@assets\/[^\\]|data:|#|https?:\/\/|$)/i.test(url) && !url.includes('\\')

/** The addresses in a value: arguments of `url()`, and the strings where functions take strings for addresses. */
export function urlsIn(value) {
  if (!value.includes('(')) return []
  const urls = []
  URL_FUNCTION.lastIndex = 0
  for (let found = URL_FUNCTION.exec(value); found; found = URL_FUNCTION.exec(value)) {
    const { text, end } = argument(value, URL_FUNCTION.lastIndex)
    urls.push(text)
    URL_FUNCTION.lastIndex = end
  }
  if (FUNCTIONS_OF_STRINGS.test(value)) urls.push(...[...value.matchAll(/"([^"]*)"|'([^']*)'/g)].map((m) => m[1] ?? m[2]))
  return urls.filter((url) => !/^(?:var|attr|env)\(/i.test(url) && !/^image\//.test(url))
}

/** What stands between a parenthesis and its end, without quotes. */
function argument(value, from) {
  const start = from + value.slice(from).search(/\S|$/)
  const quote = /["']/.test(value[start]) ? value[start] : null
  const found = quote ? value.indexOf(quote, start + 1) : value.indexOf(')', start)
  const end = found === -1 ? value.length : found
  return { text: value.slice(quote ? start + 1 : start, end).trim(), end }
}

const WRITTEN_ASSET = /(\(\s{0,20})(@assets\/[^"'()\n]{1,300}?)(\s{0,20}\))|(["'])(@assets\/[^"'\n]{1,300})\4/g

/** `url(@assets/x)` and strings `"@assets/x"`, for the time that Vite works on them; unknown ones stay as they are. */
export function hideAssets(css, task) {
  return css.replace(WRITTEN_ASSET, (whole, open, bare, close, quote, quoted) => {
    const meaning = judgeAddress(bare ?? quoted, task)
    if (meaning.code) return whole
    const url = assetUrl(meaning, ASSET_ORIGIN)
    return quote ? quote + url + quote : `${open}"${url}"${close}`
  })
}

export function showAssets(css, task) {
  return css.replaceAll(ASSET_ORIGIN, assetFolder(task))
}

/**
 * Makes `@apply`, `@variant` and Tailwind's functions work in a style block: Tailwind wants to be told where its theme is. On the
 * first line, so that lines stay where they were.
 */
export function withReference(css) {
  if (!/@apply\b|@variant\b|(?:theme|--spacing|--alpha)\(/.test(css) || /@reference\b/.test(css)) return css
  return `@reference "tailwindcss"; ${css}`
}

function offsetIn(text, line, column) {
  let start = 0
  for (let number = 1; number < line; number++) start = text.indexOf('\n', start) + 1
  return start + column - 1
}
