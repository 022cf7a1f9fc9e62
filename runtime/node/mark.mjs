/**
 * Ties what is painted to what was written: every plain element carries `data-pg-loc="pages/x.vue:12:5"`, so that a
 * finding of the render can name its line (R10). Components get none: an attribute there would be a prop.
 * Those of the kit hand it on to their own outermost element.
 *
 * On the way, `@assets/<file>` in static attributes becomes the address of the asset.
 */
import MagicString from 'magic-string'
import { kitTags } from './kit.mjs'
import { assetFolder, assetUrl, judgeAddress } from './imports.mjs'
import { walk } from './syntax_tree.mjs'
import { withAssetUrls } from './inspect_template.mjs'

export const LOCATION_ATTRIBUTE = 'data-pg-loc'

/** Values of the Vue compiler's node types; they are const enums and leave no object to import. */
const ELEMENT = 1
const TEXT = 2
const SIMPLE_EXPRESSION = 4
const ATTRIBUTE = 6
const DIRECTIVE = 7
const PLAIN_ELEMENT = 0
const COMPONENT = 1

/** A node transform for the Vue template compiler. */
export function vueMarks(task, found) {
  return (node, context) => {
    if (node.type !== ELEMENT) return
    for (const prop of node.props) {
      const held = prop.type === ATTRIBUTE ? prop.value : staticStyle(prop)
      if (!held?.content.includes('@assets/')) continue
      const name = prop.type === ATTRIBUTE ? prop.name : 'style'
      held.content = withAssetUrls(name, held.content, (address) => urlOf(address, task))
    }
    if (task.production) return // nobody looks for a place in the source of a site
    const logical = task.logicalOf(context.filename)
    if (!isMarked(node, found.modules.get(logical))) return
    if (node.props.some((p) => p.type === ATTRIBUTE && p.name === LOCATION_ATTRIBUTE)) return
    const { line, column } = node.loc.start
    const content = `${logical}:${line}:${column}`
    const value = { type: TEXT, content, loc: node.loc }
    node.props.push({ type: ATTRIBUTE, name: LOCATION_ATTRIBUTE, nameLoc: node.loc, value, loc: node.loc })
  }
}

function isMarked(node, seen) {
  if (!seen) return false
  return node.tagType === PLAIN_ELEMENT || (node.tagType === COMPONENT && kitTags(seen.imports).has(node.tag))
}

/** A written style has become an object expression by now. */
function staticStyle(prop) {
  if (prop.type !== DIRECTIVE || prop.name !== 'bind' || prop.arg?.content !== 'style') return null
  return prop.exp?.type === SIMPLE_EXPRESSION ? prop.exp : null
}

/** `{code, map}` of a TSX source with its host elements marked; `seen` is what the inspection saw. */
export function markJsx(source, seen, task) {
  const text = new MagicString(source.text)
  const ofKit = kitTags(seen.imports)
  walk(seen.program, (node) => {
    if (node.type === 'JSXOpeningElement') markElement(node, source, task, text, ofKit)
    return true
  })
  return { code: text.toString(), map: text.generateMap({ hires: 'boundary', source: task.file(source.path) }) }
}

function markElement(node, source, task, text, ofKit) {
  if (node.name.type !== 'JSXIdentifier' || !(/^[a-z]/.test(node.name.name) || ofKit.has(node.name.name))) return
  for (const attribute of node.attributes) {
    if (attribute.type !== 'JSXAttribute' || attribute.value?.type !== 'Literal') continue
    const value = attribute.value.value
    if (typeof value !== 'string' || !value.includes('@assets/')) continue
    const changed = withAssetUrls(String(attribute.name.name), value, (address) => urlOf(address, task))
    if (changed !== value) text.overwrite(attribute.value.start, attribute.value.end, `"${changed.replaceAll('"', '&quot;')}"`)
  }
  if (task.production) return
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
