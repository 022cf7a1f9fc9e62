/**
 * The editable nodes of a React page (V9), from the syntax tree of the parser that Vite uses.
 */
import { parseSync } from 'vite'
import { KNOWN, Listing, Numbers, REASONS, TEXTS, TEXT_ELEMENTS, untouchable, withSpaceBefore } from './listing.mjs'
import { core } from './values.mjs'

const NOT_READ = new Set(['script', 'style'])
const REPEATING = new Set(['map', 'flatMap', 'from', 'forEach', 'reduce', 'reduceRight'])

export function listReact(source) {
  const listing = new Listing(source, 'react')
  const { program } = parseSync('page.tsx', source.text, { lang: 'tsx', sourceType: 'module' })
  visitCode(listing, program, { id: 'module', loop: null, numbers: new Numbers() })
  return listing
}

/** Anything that is no JSX: looks for the JSX in it. A scope's `numbers` count the elements that hang on its `id`. */
function visitCode(listing, node, scope) {
  if (node.type === 'JSXElement') return void visitElement(listing, node, scope)
  if (node.type === 'JSXFragment') return void visitFragment(listing, node, scope)
  const inner = namedScope(node, scope)
  for (const key in node) {
    const value = node[key]
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child?.type === 'string') visitCode(listing, child, key === 'arguments' ? loopScope(listing, node, inner) : inner)
    }
  }
}

/** JSX hangs on the name of the function or constant that it is written in. */
function namedScope(node, scope) {
  const named = /^(?:Function(?:Declaration|Expression)|ClassDeclaration|VariableDeclarator)$/.test(node.type) && node.id?.name
  const name = named || (node.type === 'ExportDefaultDeclaration' && !node.declaration.id ? 'default' : null)
  return name ? { ...scope, id: `${scope.id}/${name}`, numbers: new Numbers() } : scope
}

function loopScope(listing, call, scope) {
  const { callee } = call
  if (call.type !== 'CallExpression' || callee.type !== 'MemberExpression' || !REPEATING.has(callee.property.name)) return scope
  return { ...scope, loop: `${listing.source.text.slice(callee.start, callee.end)}(…)` }
}

function visitFragment(listing, node, scope) {
  const id = `${scope.id}/<>[${scope.numbers.next('<>')}]`
  visitChildren(listing, node, { id, loop: scope.loop, element: listing.element(id, '', node.start), leaf: false })
}

function visitElement(listing, node, scope) {
  const { name } = node.openingElement
  const { text } = listing.source
  const tag = text.slice(name.start, name.end)
  const id = `${scope.id}/${tag}[${scope.numbers.next(tag)}]`
  const element = listing.element(id, tag, node.start)
  const component = name.type === 'JSXMemberExpression' || !/^[a-z]/.test(tag)
  const fragment = /^(?:React\.)?Fragment$/.test(tag)
  if (component && !fragment) {
    listing.addFixed({ id, kind: 'component', element, start: node.start, end: name.end, reason: REASONS.component(tag) })
  }
  const inner = { id, element, loop: scope.loop, component }
  if (!fragment) visitAttributes(listing, node.openingElement, inner)
  const leaf = node.children.every((child) => child.type === 'JSXText')
  if (NOT_READ.has(tag)) return
  visitChildren(listing, node, { ...inner, leaf })
  const blank = leaf && node.closingElement && !core(text, node.openingElement.end, node.closingElement.start)
  if (blank && !component && TEXT_ELEMENTS.has(tag) && !fillsItself(node.openingElement)) {
    const at = node.openingElement.end
    listing.add({ id: `${id}/text()[1]`, kind: 'text', element, value: '', start: at, end: at, change: { place: 'jsx-text' }, loop: scope.loop, can: ['set', 'clear'] })
  }
}

const fillsItself = (opening) =>
  opening.attributes.some((attribute) => attribute.type === 'JSXSpreadAttribute' || attribute.name.name === 'dangerouslySetInnerHTML')

function visitChildren(listing, parent, scope) {
  const numbers = new Numbers()
  for (const child of parent.children) {
    if (child.type === 'JSXText') visitText(listing, child, scope, numbers)
    else if (child.type === 'JSXExpressionContainer') visitContainer(listing, child, scope, numbers)
    else visitCode(listing, child, { id: scope.id, loop: scope.loop, numbers })
  }
}

function visitText(listing, child, scope, numbers) {
  const range = core(listing.source.text, child.start, child.end)
  if (!range) return
  const id = `${scope.id}/text()[${numbers.next('text()')}]`
  const can = scope.leaf && TEXT_ELEMENTS.has(scope.element.tag) ? ['set', 'clear'] : ['set']
  listing.add({ id, kind: 'text', element: scope.element, start: range[0], end: range[1], change: { place: 'jsx-text' }, loop: scope.loop, can })
}

/** `{…}` among children: a plain string is text as well; elements inside are visited; the rest is computed. */
function visitContainer(listing, { expression, start, end }, scope, numbers) {
  if (expression.type === 'JSXEmptyExpression') return
  const literal = stringIn(expression)
  if (literal) {
    if (!literal.value.trim()) return
    const id = `${scope.id}/text()[${numbers.next('text()')}]`
    return void listing.add({ id, kind: 'text', element: scope.element, ...literal, loop: scope.loop })
  }
  const id = `${scope.id}/{}[${numbers.next('{}')}]`
  const before = listing.nodes.length
  visitCode(listing, expression, { id, loop: scope.loop, numbers: new Numbers() })
  if (listing.nodes.length > before) return
  const reason = REASONS.expression(listing.source.text.slice(start, end))
  listing.addFixed({ id, kind: 'text', element: scope.element, start, end, reason })
}

function visitAttributes(listing, opening, { id, element, loop, component }) {
  const { text } = listing.source
  const present = new Set()
  for (const attribute of opening.attributes) {
    if (attribute.type !== 'JSXAttribute') {
      present.add('*')
      continue
    }
    const name = text.slice(attribute.name.start, attribute.name.end)
    present.add(name)
    if (untouchable(name)) continue
    const held = valueOf(attribute.value)
    const kind = name === 'className' ? 'class' : component ? 'prop' : 'attribute'
    if (held || (!attribute.value && TEXTS.has(name))) {
      const nothing = { value: '', start: attribute.end, end: attribute.end, change: { place: 'jsx-attribute', quote: '"', before: '="', after: '"' } }
      const { change, ...where } = held ?? nothing
      const remove = withSpaceBefore(text, attribute.start, attribute.end)
      listing.add({ id: `${id}/@${name}`, kind, element, name, ...where, change: { ...change, remove }, loop, can: ['set', 'remove'] })
      continue
    }
    const before = listing.nodes.length
    if (attribute.value) visitCode(listing, attribute.value, { id: `${id}/@${name}`, loop, numbers: new Numbers() })
    if (!KNOWN.has(name) || listing.nodes.length > before || !attribute.value) continue
    const reason = REASONS.expression(text.slice(attribute.value.start, attribute.value.end))
    listing.addFixed({ id: `${id}/@${name}`, kind, element, name, start: attribute.start, end: attribute.end, reason })
  }
  if (component || present.has('*')) return
  const at = opening.typeArguments?.end ?? opening.name.end
  const absent = ['className', ...(element.tag === 'img' ? ['alt'] : [])].filter((name) => !present.has(name))
  for (const name of absent) {
    const change = { place: 'jsx-attribute', quote: '"', before: ` ${name}="`, after: '"' }
    listing.add({ id: `${id}/@${name}`, kind: name === 'className' ? 'class' : 'attribute', element, name, value: null, start: at, end: at, change, loop })
  }
}

/** A static value: `"…"`, or a plain string in braces. */
function valueOf(value) {
  if (value?.type === 'JSXExpressionContainer') return stringIn(value.expression)
  if (value?.type !== 'Literal') return null
  return { start: value.start + 1, end: value.end - 1, change: { place: 'jsx-attribute', quote: value.raw[0] } }
}

function stringIn(expression) {
  const [start, end] = [expression.start + 1, expression.end - 1]
  if (expression.type === 'Literal' && typeof expression.value === 'string') {
    return { value: expression.value, start, end, change: { place: 'js-string', quote: expression.raw[0] } }
  }
  if (expression.type === 'TemplateLiteral' && expression.quasis.length === 1) {
    return { value: expression.quasis[0].value.cooked, start, end, change: { place: 'js-template' } }
  }
  return null
}
