/**
 * How the modules of a task use one component (D4): which props, events and slots each place gives it.
 *
 * A use is `{file, line, column, props, events, slots, open}`; `open` where a place gives more than can be seen, as by
 * `v-bind="all"` or `{...all}`. Read from the very sources that the build takes.
 */
import { parseSync } from 'vite'
import { judge } from './imports.mjs'
import { childrenOf, walk } from './syntax_tree.mjs'

const USES_MAX = 500

export function readUses(task, found, component) {
  const uses = []
  for (const logical of found.paths) {
    if (logical === component || uses.length >= USES_MAX) continue
    const seen = found.modules.get(logical)
    const isMeant = (specifier) => judge(specifier, logical, task).module === component
    if (!seen.imports.some(({ specifier }) => isMeant(specifier))) continue
    const source = task.source(logical)
    const places = seen.descriptor ? usesInVue(seen.descriptor, isMeant) : usesInReact(source, seen.program, isMeant)
    uses.push(...places.map(({ offset, ...use }) => ({ file: logical, ...source.at(offset), ...use })))
  }
  return uses.slice(0, USES_MAX)
}

const nothing = (offset) => ({ offset, props: [], events: [], slots: [], open: false })
const camel = (name) => name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase())
const pascal = (name) => camel(name).replace(/^[a-z]/, (letter) => letter.toUpperCase())

/** The names that a script gives to the default of a module: by `import X from …`, or by a constant around `import(…)`. */
function localNames(text, lang, isMeant) {
  const { program, module } = parseSync(`page.${lang}`, text, { lang, sourceType: 'module' })
  const names = new Set()
  for (const { moduleRequest, entries } of module.staticImports) {
    if (!isMeant(moduleRequest.value)) continue
    for (const { importName, localName } of entries) {
      if (importName.kind === 'Default' || importName.name === 'default') names.add(localName.value)
    }
  }
  if (!module.dynamicImports.length) return names
  walk(program, (node) => {
    if (node.type !== 'VariableDeclarator' || node.id.type !== 'Identifier' || !node.init) return true
    const imports = [...within(node.init)].some((inner) => inner.type === 'ImportExpression' && isMeant(inner.source?.value ?? ''))
    if (imports) names.add(node.id.name)
    return !imports
  })
  return names
}

function* within(node) {
  yield node
  for (const child of childrenOf(node)) yield* within(child)
}

// --- Vue --------------------------------------------------------------------------------------------------------------

const [ELEMENT, TEXT, COMMENT, ATTRIBUTE, DIRECTIVE] = [1, 2, 3, 6, 7]

function usesInVue(descriptor, isMeant) {
  const names = new Set()
  for (const block of [descriptor.script, descriptor.scriptSetup]) {
    if (block) for (const name of localNames(block.content, block.lang ?? 'js', isMeant)) names.add(name)
  }
  const uses = []
  const waiting = descriptor.template?.ast ? [descriptor.template.ast] : []
  while (waiting.length) {
    const node = waiting.pop()
    if (node.type === ELEMENT && isNamed(node, names)) uses.push(vueUse(node))
    waiting.push(...(node.children ?? []).filter((child) => typeof child === 'object').toReversed())
  }
  return uses
}

function isNamed(node, names) {
  if (names.has(node.tag) || names.has(camel(node.tag)) || names.has(pascal(node.tag))) return true
  if (node.tag !== 'component') return false
  return node.props.some((p) => p.type === DIRECTIVE && p.arg?.content === 'is' && names.has(p.exp?.content?.trim()))
}

function vueUse(node) {
  const use = nothing(node.loc.start.offset)
  for (const prop of node.props) {
    if (prop.type === ATTRIBUTE) use.props.push(camel(prop.name))
    else if (prop.type === DIRECTIVE) readDirective(prop, use)
  }
  const children = node.children ?? []
  const named = children.map(slotOf).filter((name) => name !== null)
  use.slots.push(...named)
  const bare = children.some((c) => c.type !== COMMENT && slotOf(c) === null && !(c.type === TEXT && !c.content.trim()))
  if (bare && !use.slots.includes('default') && !node.props.some((p) => p.type === DIRECTIVE && p.name === 'slot')) use.slots.push('default')
  return use
}

function readDirective({ name, arg, exp }, use) {
  const told = arg?.isStatic ? arg.content : null
  if (name === 'slot') use.slots.push(arg ? (told ?? '') : 'default')
  else if (name === 'model') {
    const model = camel(told ?? 'modelValue')
    use.props.push(model)
    use.events.push(`update:${model}`)
  } else if (name === 'bind' && told !== null) use.props.push(camel(told))
  else if (name === 'on' && told !== null) use.events.push(told)
  else if (name === 'bind' || name === 'on') use.open = use.open || exp !== undefined || arg !== undefined
}

/** The name of the slot that a child fills, or null when it is content of the default one. */
function slotOf(child) {
  const slot = child.type === ELEMENT && child.tag === 'template' && child.props.find((p) => p.type === DIRECTIVE && p.name === 'slot')
  if (!slot) return null
  return slot.arg ? (slot.arg.isStatic ? slot.arg.content : '') : 'default'
}

// --- React ------------------------------------------------------------------------------------------------------------

function usesInReact(source, program, isMeant) {
  const names = localNames(source.text, 'tsx', isMeant)
  const uses = []
  walk(program, (node) => {
    if (node.type === 'JSXElement' && names.has(node.openingElement.name.name)) uses.push(reactUse(node))
    return true
  })
  return uses
}

function reactUse({ openingElement, children, start }) {
  const use = nothing(start)
  for (const attribute of openingElement.attributes) {
    if (attribute.type === 'JSXSpreadAttribute') use.open = true
    else if (attribute.name.name === 'children') use.slots.push('default')
    else use.props.push(String(attribute.name.name))
  }
  const filled = children.some((child) => (child.type === 'JSXText' ? child.value.trim() : child.expression?.type !== 'JSXEmptyExpression'))
  if (filled && !use.slots.length) use.slots.push('default')
  return use
}
