/**
 * The contract of a Vue component: props and events from what the Vue compiler makes of its script, which knows types,
 * defaults and models; slots and events that are only used from its template.
 */
import { compileScript, parse as parseVue } from 'vue/compiler-sfc'
import { parseSync } from 'vite'
import { typeFiles } from './types.mjs'

const TYPE_CHARS_MAX = 120

export function vueContract(source, task) {
  const found = { props: new Map(), events: new Set(), slots: new Set(), open: { props: false, events: false, slots: false } }
  // A descriptor of its own: the one of the inspection is the build's.
  const { descriptor } = parseVue(source.text, { filename: task.file(source.path), sourceMap: false, pad: false })
  if (descriptor.script || descriptor.scriptSetup) {
    try {
      const { content } = compileScript(descriptor, { id: 'contract', fs: typeFiles(task) })
      readOptions(content, found)
    } catch {
      found.open.props = found.open.events = true // the build will say what it thinks of the script
    }
  }
  if (descriptor.template?.ast) readTemplate(descriptor.template.ast, found)
  const script = `${descriptor.script?.content ?? ''}${descriptor.scriptSetup?.content ?? ''}`
  readSlotsUsed(descriptor.template?.content ?? '', /\$slots\b/g, found)
  readSlotsUsed(script, /\$?\bslots\b/g, found)
  if (/\buseSlots\s*\(/.test(script) && !/\bslots\s*=\s*useSlots\b/.test(script)) found.open.slots = true
  readEmitted(script, found)
  if (/\.emit\s*\(\s*[^'"\s]|\bemits\s*:\s*[^[{\s]/.test(script)) found.open.events = true
  return found
}

// --- props and events -------------------------------------------------------------------------------------------------

function readOptions(content, found) {
  const { program } = parseSync('component.ts', content, { lang: 'ts', sourceType: 'module' })
  const names = new Names(program)
  const options = names.object(program.body.find((node) => node.type === 'ExportDefaultDeclaration')?.declaration)
  if (!options) return void (found.open.props = found.open.events = true)
  for (const property of options.properties) {
    if (property.type === 'SpreadElement') found.open.props = found.open.events = true
    else if (keyOf(property) === 'props' && !names.props(property.value, found.props, content)) found.open.props = true
    else if (keyOf(property) === 'emits' && !names.events(property.value, found.events)) found.open.events = true
    else if (/^(?:extends|mixins)$/.test(keyOf(property) ?? '')) found.open.props = found.open.events = true
  }
}

const keyOf = ({ key, computed }) => (computed ? null : (key?.name ?? key?.value ?? null))

/** How far names are followed through constants: one may name another, and they may name each other. */
const STEPS_MAX = 1000

/** Reads what an expression names; each answers false when it names more than can be seen. */
class Names {
  #constants = new Map()
  #steps = 0

  constructor(program) {
    for (const node of program.body) {
      const declared = node.type === 'ExportNamedDeclaration' ? node.declaration : node
      if (declared?.type !== 'VariableDeclaration' || declared.kind !== 'const') continue
      for (const { id, init } of declared.declarations) if (id.type === 'Identifier' && init) this.#constants.set(id.name, init)
    }
  }

  #plain(node, depth = 0) {
    if (!node || depth > 20 || this.#steps++ > STEPS_MAX) return null
    if (/^TS(?:As|Satisfies|NonNull)Expression$|^ParenthesizedExpression$/.test(node.type)) return this.#plain(node.expression, depth + 1)
    if (node.type === 'Identifier' && this.#constants.has(node.name)) return this.#plain(this.#constants.get(node.name), depth + 1)
    return node
  }

  /** The options object of a component: itself, or in `defineComponent(…)` and `Object.assign(…, {…})`. */
  object(node) {
    const plain = this.#plain(node)
    if (plain?.type === 'ObjectExpression') return plain
    if (plain?.type !== 'CallExpression') return null
    return this.object(plain.arguments.findLast((argument) => this.#plain(argument)?.type === 'ObjectExpression'))
  }

  props(node, props, content) {
    const plain = this.#plain(node)
    if (plain?.type === 'ArrayExpression') {
      return every(plain.elements, (element) => this.#word(element, (name) => props.set(name, { name, required: false, type: '' })))
    }
    if (plain?.type === 'ObjectExpression') return every(plain.properties, (property) => this.#prop(property, props, content))
    if (!isCall(plain, /^_?merge(?:Models|Defaults)$/)) return false
    const [first, second] = plain.arguments
    if (plain.callee.name.endsWith('Models')) return this.props(first, props, content) & this.props(second, props, content)
    const whole = this.props(first, props, content)
    const defaults = this.#plain(second)
    for (const property of defaults?.properties ?? []) {
      const known = props.get(keyOf(property))
      if (known) known.required = false
    }
    return whole
  }

  #prop(property, props, content) {
    if (property.type === 'SpreadElement') return this.props(property.argument, props, content)
    const name = keyOf(property)
    if (name === null) return false
    if (/Modifiers$/.test(name) && isNothing(property.value)) return true // the compiler's own, beside a model
    const plain = this.#plain(property.value)
    const said = plain?.type === 'ObjectExpression' ? Object.fromEntries(plain.properties.filter((p) => p.key).map((p) => [keyOf(p), p.value])) : { type: plain }
    const has = (word) => said[word] !== undefined && said[word].value !== false
    const type = said.type && said.type.type !== 'Literal' ? content.slice(said.type.start, said.type.end) : ''
    props.set(name, { name, required: has('required') && !('default' in said), type: type.replace(/\s+/g, ' ').slice(0, TYPE_CHARS_MAX) })
    return true
  }

  events(node, events) {
    const plain = this.#plain(node)
    if (plain?.type === 'ArrayExpression') return every(plain.elements, (element) => this.#word(element, (name) => events.add(name)))
    if (plain?.type === 'ObjectExpression') {
      return every(plain.properties, (property) => {
        if (property.type === 'SpreadElement') return this.events(property.argument, events)
        if (keyOf(property) === null) return false
        events.add(keyOf(property))
        return true
      })
    }
    if (isCall(plain, /^_?mergeModels$/)) return this.events(plain.arguments[0], events) & this.events(plain.arguments[1], events)
    return false
  }

  #word(element, take) {
    if (element?.type === 'SpreadElement') return false
    const plain = this.#plain(element)
    if (typeof plain?.value !== 'string') return false
    take(plain.value)
    return true
  }
}

const isCall = (node, name) => node?.type === 'CallExpression' && name.test(node.callee.name ?? '')
const isNothing = (node) => node?.type === 'ObjectExpression' && node.properties.length === 0
const every = (items, visit) => items.map(visit).every(Boolean)

// --- the template -----------------------------------------------------------------------------------------------------

const EMITTED = /\$emit\(\s*(?:(['"`])([\w:.-]+)\1|([^'"`\s)]))/g

function readTemplate(root, found) {
  const waiting = [root]
  while (waiting.length) {
    const node = waiting.pop()
    if (node.type === 1 && node.tag === 'slot') readSlot(node, found)
    for (const prop of node.props ?? []) {
      if (prop.type === 7 && prop.exp?.content?.includes('$emit')) readEmitted(prop.exp.content, found)
    }
    waiting.push(...(node.children ?? []).filter((child) => typeof child === 'object'))
  }
}

function readSlot(node, found) {
  const bound = node.props.find((p) => p.type === 7 && p.name === 'bind' && (!p.arg || p.arg.content === 'name'))
  const named = node.props.find((p) => p.type === 6 && p.name === 'name')
  if (bound?.arg) return void (found.open.slots = true)
  found.slots.add(named?.value?.content || 'default')
}

/** `$slots.head` names a slot; whatever else is done with all of them leaves open which there are. */
function readSlotsUsed(text, pattern, found) {
  for (const { index, 0: word } of text.matchAll(pattern)) {
    const after = text.slice(index + word.length, index + word.length + 200)
    const named = /^\s*\??\.\s*([A-Za-z_]\w*)/.exec(after)
    const declared = /^\s*(?:=\s*useSlots\s*\(|[,}])/.test(after)
    if (named) found.slots.add(named[1])
    else if (!declared) found.open.slots = true
  }
}

function readEmitted(text, found) {
  for (const [, , name, other] of text.matchAll(EMITTED)) {
    if (other) found.open.events = true
    else found.events.add(name)
  }
}
