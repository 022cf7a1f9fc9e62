/**
 * The editable nodes of a Vue page (V9), from the syntax tree of Vue's own parser.
 */
import { parse, parseCache } from 'vue/compiler-sfc'
import { KNOWN, Listing, Numbers, REASONS, TEXTS, TEXT_ELEMENTS, untouchable, withSpaceBefore } from './listing.mjs'
import { core } from './values.mjs'

/** Values of the Vue compiler's enums, which leave no object to import. */
const [ELEMENT, TEXT, INTERPOLATION, ATTRIBUTE, DIRECTIVE] = [1, 2, 5, 6, 7]
const [PLAIN, COMPONENT] = [0, 1]
const BUILT_IN = /^(?:component|keep-?alive|suspense|teleport|transition(?:-?group)?)$/i
const NOT_READ = new Set(['script', 'style'])

export function listVue(source) {
  const listing = new Listing(source, 'vue')
  const { descriptor } = parse(source.text, {
    filename: source.path,
    sourceMap: false,
    templateParseOptions: { whitespace: 'preserve', comments: true },
  })
  parseCache.clear()
  const root = descriptor.template?.ast
  if (root) visitChildren(listing, root, { id: 'template', element: null, loop: null, pre: false })
  return listing
}

function visitChildren(listing, parent, scope) {
  const numbers = new Numbers()
  for (const child of parent.children) {
    if (child.type === ELEMENT) visitElement(listing, child, scope, numbers)
    else if (child.type === TEXT) visitText(listing, child, scope, numbers)
    else if (child.type === INTERPOLATION && scope.element) {
      const [start, end] = [child.loc.start.offset, child.loc.end.offset]
      const reason = REASONS.expression(listing.source.text.slice(start, end))
      listing.addFixed({ id: `${scope.id}/{{}}[${numbers.next('{{}}')}]`, kind: 'text', element: scope.element, start, end, reason })
    }
  }
}

function visitText(listing, { loc }, scope, numbers) {
  if (!scope.element) return // outside of every element: not on the page of a component
  const { text } = listing.source
  // The parser takes a line end right after <pre> for layout.
  const skipped = scope.pre && text[loc.start.offset - 1] === '>' ? /^\r?\n/.exec(text.slice(loc.start.offset, loc.start.offset + 2)) : null
  const whole = [loc.start.offset + (skipped?.[0].length ?? 0), loc.end.offset]
  const range = core(text, ...whole)
  if (!range) return
  const [start, end] = scope.pre ? whole : range
  const id = `${scope.id}/text()[${numbers.next('text()')}]`
  const can = scope.leaf && TEXT_ELEMENTS.has(scope.element.tag) ? ['set', 'clear'] : ['set']
  listing.add({ id, kind: 'text', element: scope.element, start, end, change: { place: 'vue-text', keepsSpace: scope.pre }, loop: scope.loop, can })
}

function visitElement(listing, node, scope, numbers) {
  if (NOT_READ.has(node.tag)) return
  const id = `${scope.id}/${node.tag}[${numbers.next(node.tag)}]`
  const element = listing.element(id, node.tag, node.loc.start.offset)
  const directive = (name) => node.props.find((prop) => prop.type === DIRECTIVE && prop.name === name)
  const repeats = directive('for')
  const loop = repeats ? `v-for="${repeats.exp?.loc.source ?? ''}"` : scope.loop
  const component = node.tagType === COMPONENT && !BUILT_IN.test(node.tag)
  if (component) {
    const [start, end] = [node.loc.start.offset, node.loc.start.offset + 1 + node.tag.length]
    listing.addFixed({ id, kind: 'component', element, start, end, reason: REASONS.component(node.tag) })
  }
  if (node.tagType === PLAIN || component) visitAttributes(listing, node, { id, element, loop, component })
  const filled = directive('html') ?? directive('text')
  if (filled) {
    const [start, end] = [filled.loc.start.offset, filled.loc.end.offset]
    listing.addFixed({ id: `${id}/${filled.rawName}`, kind: 'text', element, start, end, reason: REASONS.expression(filled.loc.source) })
    return
  }
  const leaf = node.children.every((child) => child.type === TEXT)
  const pre = scope.pre || node.tag === 'pre' || node.tag === 'textarea'
  visitChildren(listing, node, { id, element, loop, pre, leaf })
  if (leaf && TEXT_ELEMENTS.has(node.tag)) addEmptyText(listing, node, { id, element, loop })
}

function addEmptyText(listing, node, { id, element, loop }) {
  if (node.isSelfClosing || node.children.some((child) => child.loc.source.trim())) return
  const start = node.children[0]?.loc.start.offset ?? innerStart(listing.source.text, node)
  if (start === null) return
  listing.add({ id: `${id}/text()[1]`, kind: 'text', element, value: '', start, end: start, change: { place: 'vue-text' }, loop, can: ['set', 'clear'] })
}

/** Where an element without children would have them: before its closing tag. */
function innerStart(text, node) {
  const end = text.lastIndexOf('</', node.loc.end.offset - 1)
  return end > node.loc.start.offset ? end : null
}

function visitAttributes(listing, node, { id, element, loop, component }) {
  const { text } = listing.source
  const present = new Set()
  for (const prop of node.props) {
    const name = prop.type === ATTRIBUTE ? prop.name : prop.name === 'bind' ? (prop.arg?.content ?? '*') : null
    if (name === null) continue
    const [start, end] = [prop.loc.start.offset, prop.loc.end.offset]
    if (prop.type === DIRECTIVE) {
      if (name !== 'class') present.add(name) // a class may be written beside a computed one
      if (!KNOWN.has(name)) continue
      const kind = name === 'class' ? 'class' : 'attribute'
      listing.addFixed({ id: `${id}/:${name}`, kind, element, name, start, end, reason: REASONS.expression(prop.loc.source) })
      continue
    }
    present.add(name)
    if (untouchable(name) || /^[:@#.]|^v-/.test(name)) continue
    const held = valueOf(text, prop)
    if (!held && !TEXTS.has(name)) continue
    const kind = name === 'class' ? 'class' : component ? 'prop' : 'attribute'
    const change = { place: 'vue-attribute', ...(held?.change ?? { quote: '"', before: '="', after: '"' }), remove: withSpaceBefore(text, start, end) }
    const range = held ? held.range : [end, end]
    listing.add({ id: `${id}/@${name}`, kind, element, name, value: held ? undefined : '', start: range[0], end: range[1], change, loop, can: ['set', 'remove'] })
  }
  if (component || present.has('*')) return
  const absent = ['class', ...(node.tag === 'img' ? ['alt'] : [])].filter((name) => !present.has(name))
  const at = node.loc.start.offset + 1 + node.tag.length
  for (const name of absent) {
    const change = { place: 'vue-attribute', quote: '"', before: ` ${name}="`, after: '"' }
    listing.add({ id: `${id}/@${name}`, kind: name === 'class' ? 'class' : 'attribute', element, name, value: null, start: at, end: at, change, loop })
  }
}

function valueOf(text, prop) {
  if (!prop.value) return null
  const [start, end] = [prop.value.loc.start.offset, prop.value.loc.end.offset]
  const quote = text[start]
  if (quote === '"' || quote === "'") return { range: [start + 1, end - 1], change: { quote } }
  return { range: [start, end], change: { quote: '"', before: '"', after: '"' } }
}
