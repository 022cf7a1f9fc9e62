/**
 * Ties what is painted to what was written: every plain element carries `data-pg-loc="pages/x.vue:12:5"`, so that a
 * finding of the render can name its line (R10). Components get none: an attribute there would be a prop.
 *
 * On the way, `@assets/<file>` in static attributes becomes the address of the asset.
 */
import MagicString from 'magic-string'
import { assetFolder, assetUrl, judgeAddress } from './imports.mjs'
import { walk } from './inspect_script.mjs'
import { withAssetUrls } from './inspect_template.mjs'

export const LOCATION_ATTRIBUTE = 'data-pg-loc'

/** Values of the Vue compiler's node types; they are const enums and leave no object to import. */
const ELEMENT = 1
const TEXT = 2
const SIMPLE_EXPRESSION = 4
const ATTRIBUTE = 6
const DIRECTIVE = 7
const PLAIN_ELEMENT = 0

/** A node transform for the Vue template compiler. */
export function vueMarks(task) {
  return (node, context) => {
    if (node.type !== ELEMENT) return
    for (const prop of node.props) {
      const held = prop.type === ATTRIBUTE ? prop.value : staticStyle(prop)
      if (!held?.content.includes('@assets/')) continue
      const name = prop.type === ATTRIBUTE ? prop.name : 'style'
      held.content = withAssetUrls(name, held.content, (address) => urlOf(address, task))
    }
    if (node.tagType !== PLAIN_ELEMENT) return
    const logical = task.logicalOf(context.filename)
    if (!logical || node.props.some((p) => p.type === ATTRIBUTE && p.name === LOCATION_ATTRIBUTE)) return
    const { line, column } = node.loc.start
    const content = `${logical}:${line}:${column}`
    const value = { type: TEXT, content, loc: node.loc }
    node.props.push({ type: ATTRIBUTE, name: LOCATION_ATTRIBUTE, nameLoc: node.loc, value, loc: node.loc })
  }
}

/** A written style has become an object expression by now. */
function staticStyle(prop) {
  if (prop.type !== DIRECTIVE || prop.name !== 'bind' || prop.arg?.content !== 'style') return null
  return prop.exp?.type === SIMPLE_EXPRESSION ? prop.exp : null
}

/** `{code, map}` of a TSX source with its host elements marked; `program` is its syntax tree. */
export function markJsx(source, program, task) {
  const text = new MagicString(source.text)
  walk(program, (node) => {
    if (node.type === 'JSXOpeningElement') markHostElement(node, source, task, text)
    return true
  })
  return { code: text.toString(), map: text.generateMap({ hires: 'boundary', source: task.file(source.path) }) }
}

function markHostElement(node, source, task, text) {
  if (node.name.type !== 'JSXIdentifier' || !/^[a-z]/.test(node.name.name)) return
  for (const attribute of node.attributes) {
    if (attribute.type !== 'JSXAttribute' || attribute.value?.type !== 'Literal') continue
    const value = attribute.value.value
    if (typeof value !== 'string' || !value.includes('@assets/')) continue
    const changed = withAssetUrls(String(attribute.name.name), value, (address) => urlOf(address, task))
    if (changed !== value) text.overwrite(attribute.value.start, attribute.value.end, `"${changed.replaceAll('"', '&quot;')}"`)
  }
  const { line, column } = source.at(node.start)
  const place = `${source.path}:${line}:${column}`.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
  text.appendLeft(node.name.end, ` ${LOCATION_ATTRIBUTE}="${place}"`)
}

/** A piece of marked code as the author wrote it. */
export function unmarked(code) {
  return code.replace(new RegExp(` ${LOCATION_ATTRIBUTE}="[^"]*"`, 'g'), '')
}

function urlOf(address, task) {
  const meaning = judgeAddress(address, task)
  return meaning.code ? address : assetUrl(meaning, assetFolder(task))
}
