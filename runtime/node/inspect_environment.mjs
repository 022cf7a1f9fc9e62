/**
 * Finds `process.env` in a page: it reads as if there were an environment, and there is none in a browser.
 *
 * Says nothing where it may be meant otherwise: a `process` of the page's own, one that is looked for before it is used,
 * one whose absence is caught, and `process.env.NODE_ENV`, which the compiler fills in.
 */
import { refusal } from './errors.mjs'
import { childrenOf } from './syntax_tree.mjs'

const OTHERWISE =
  /\b(?:const|let|var|function|class|import)\s+process\b|[{,(]\s*process\s*[,)}=:?]|\bprocess\s+(?:in|of|as)\b|\bas\s+process\b|\bprocess\s*=>|typeof\s+process\b|\.process\b|["']process["']|\bprocess\?/
const MESSAGE = 'process.env is not available in a page.'
const HINT = 'A page has no environment: write the value itself, as a constant in the script.'

const mentions = (text) => /\bprocess\s*\.\s*env\b/.test(text)

/** In a script, whose `program` was parsed; `offset` is where it starts in the source. */
export function inspectScriptEnvironment(source, { text, offset }, program, seen) {
  if (!mentions(text) || OTHERWISE.test(source.text)) return
  const waiting = [program]
  while (waiting.length) {
    const node = waiting.pop()
    if (node.type === 'TryStatement') continue
    if (isNodeEnv(node)) continue
    if (isEnv(node)) seen.errors.push(found(source, offset + node.start))
    else waiting.push(...childrenOf(node))
  }
}

/** In the expressions of a template. */
export function inspectTemplateEnvironment(source, node, seen) {
  if (!mentions(source.text) || OTHERWISE.test(source.text)) return
  const waiting = [node]
  while (waiting.length) {
    const { props = [], children = [], content } = waiting.pop()
    const expressions = [content, ...props.map((prop) => prop.exp)].filter((held) => held?.type === EXPRESSION && !held.isStatic)
    for (const { loc } of expressions) {
      const place = unquoted(loc.source).search(/\bprocess\s*\.\s*env\b(?!\s*\.\s*NODE_ENV\b)/)
      if (place !== -1) seen.errors.push(found(source, loc.start.offset + place))
    }
    waiting.push(...children.filter((child) => typeof child === 'object'))
  }
}

const EXPRESSION = 4 // of the Vue compiler's node types
const found = (source, offset) => refusal('PAGE_SOURCE_NOT_ALLOWED', MESSAGE, { source, offset, hint: HINT })
const unquoted = (text) => text.replace(/(["'`])(?:\\.|(?!\1).)*\1/gs, (quoted) => ' '.repeat(quoted.length))

/** The one variable that is there: the compiler writes its value. */
const isNodeEnv = (node) => node.type === 'MemberExpression' && !node.computed && isEnv(node.object) && node.property.name === 'NODE_ENV'

const isEnv = (node) =>
  node.type === 'MemberExpression' && node.object.type === 'Identifier' && node.object.name === 'process' && node.property.name === 'env'
