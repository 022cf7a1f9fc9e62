/**
 * The contract of a React component: the props of its default export, by the types it declares and the names it takes
 * apart. `children` is its slot; an event is a prop like any other.
 */
const TYPE_CHARS_MAX = 120
const WRAPPERS = new Set(['memo', 'forwardRef', 'observer'])
const COMPONENT_TYPES = new Set(['FC', 'FunctionComponent', 'VFC', 'SFC'])
const DEPTH_MAX = 30
/** How many members and types are read: types may name each other, and again. */
const STEPS_MAX = 5000

/** The contract as `readContract` wants it, or `{error}` for a default export that is no component. */
export function reactContract(source, { program }) {
  const reader = new Reader(source, program)
  const exported = reader.exported()
  if (!exported) {
    const message = 'The component has no default export.'
    return { error: { code: 'COMPONENT_EXPORT_MISSING', message, offset: 0, hint: 'Write `export default function Name(props) { … }`.' } }
  }
  const component = reader.component(exported)
  if (component.type === 'none') {
    const hint = 'Export a function that returns JSX: `export default function Name(props) { … }`.'
    const message = 'The default export is no component.'
    return { error: { code: 'COMPONENT_EXPORT_INVALID', message, offset: exported.start, hint } }
  }
  reader.read(component)
  const { props, open } = reader
  const slots = props.has('children') ? ['default'] : []
  props.delete('children')
  return { props, events: new Set(), slots: new Set(slots), open: { props: open, events: false, slots: open } }
}

class Reader {
  props = new Map()
  open = false
  #source
  #declared = new Map()
  #types = new Map()
  #program
  #steps = 0

  constructor(source, program) {
    this.#source = source
    this.#program = program
    for (const node of program.body) {
      const one = /^Export(?:Named|Default)Declaration$/.test(node.type) ? (node.declaration ?? node) : node
      if (/^(?:Function|Class)Declaration$/.test(one.type) && one.id) this.#declared.set(one.id.name, { value: one, type: null })
      else if (one.type === 'VariableDeclaration') this.#declare(one)
      else if (/^TS(?:Interface|TypeAlias)Declaration$/.test(one.type)) this.#types.set(one.id.name, one)
      else if (one.type === 'ImportDeclaration') for (const { local } of one.specifiers) this.#declared.set(local.name, { value: null, type: null })
    }
  }

  #declare({ declarations }) {
    for (const { id, init } of declarations) {
      if (id.type === 'Identifier' && init) this.#declared.set(id.name, { value: init, type: id.typeAnnotation?.typeAnnotation ?? null })
    }
  }

  /** The expression behind `export default`, or behind `export { X as default }`. */
  exported() {
    for (const node of this.#program.body) {
      if (node.type === 'ExportDefaultDeclaration') return node.declaration
      if (node.type !== 'ExportNamedDeclaration') continue
      const specifier = node.specifiers.find((s) => (s.exported.name ?? s.exported.value) === 'default')
      if (specifier) return node.source ? { type: 'Identifier', name: '', start: specifier.start } : specifier.local
    }
    return null
  }

  /** `{type: 'function' | 'class' | 'unknown' | 'none', node, propsType}`. */
  component(node, propsType = null, depth = 0) {
    if (!node || depth > DEPTH_MAX) return { type: 'unknown', propsType }
    switch (node.type) {
      case 'FunctionDeclaration':
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        return { type: 'function', node, propsType }
      case 'ClassDeclaration':
      case 'ClassExpression':
        return { type: 'class', node, propsType: propsType ?? node.superTypeArguments?.params[0] ?? node.superTypeParameters?.params[0] ?? null }
      case 'TSAsExpression':
      case 'TSSatisfiesExpression':
      case 'TSNonNullExpression':
      case 'ParenthesizedExpression':
        return this.component(node.expression, propsType ?? componentType(node.typeAnnotation), depth + 1)
      case 'Identifier': {
        const known = this.#declared.get(node.name)
        return known ? this.component(known.value, propsType ?? componentType(known.type), depth + 1) : { type: 'unknown', propsType }
      }
      case 'CallExpression': {
        const callee = node.callee.property?.name ?? node.callee.name
        if (!WRAPPERS.has(callee)) return { type: 'unknown', propsType }
        const typed = callee === 'forwardRef' ? node.typeArguments?.params[1] : node.typeArguments?.params[0]
        return this.component(node.arguments[0], propsType ?? typed ?? null, depth + 1)
      }
      case 'Literal':
      case 'TemplateLiteral':
      case 'ObjectExpression':
      case 'ArrayExpression':
      case 'JSXElement':
      case 'JSXFragment':
        return { type: 'none' }
      default:
        return { type: 'unknown', propsType }
    }
  }

  read({ type, node, propsType }) {
    const parameter = type === 'function' ? node.params[0] : null
    const pattern = parameter?.type === 'AssignmentPattern' ? parameter.left : parameter
    const annotated = propsType ?? pattern?.typeAnnotation?.typeAnnotation ?? null
    if (annotated) this.#readType(annotated)
    else if (type !== 'function' || (pattern && pattern.type !== 'ObjectPattern')) this.open = true
    if (pattern?.type === 'ObjectPattern') this.#readPattern(pattern, !annotated)
  }

  #readPattern({ properties }, alone) {
    for (const property of properties) {
      if (property.type === 'RestElement') {
        if (alone) this.open = true
        continue
      }
      const name = property.key?.name ?? property.key?.value
      if (property.computed || name === undefined) this.open = true
      else if (alone) this.#add(String(name), false, '')
      if (property.value?.type === 'AssignmentPattern' && this.props.has(name)) this.props.get(name).required = false
    }
  }

  #readType(type, depth = 0) {
    if (depth > DEPTH_MAX || this.#steps++ > STEPS_MAX) return void (this.open = true)
    switch (type.type) {
      case 'TSTypeLiteral':
        return this.#readMembers(type.members)
      case 'TSIntersectionType':
        return type.types.forEach((part) => this.#readType(part, depth + 1))
      case 'TSParenthesizedType':
        return this.#readType(type.typeAnnotation, depth + 1)
      case 'TSTypeReference': {
        const name = type.typeName.name ?? type.typeName.right?.name
        const inner = type.typeArguments?.params
        if (name === 'PropsWithChildren') {
          this.#add('children', false, 'ReactNode')
          return inner?.[0] && this.#readType(inner[0], depth + 1)
        }
        if (name === 'Readonly' && inner?.[0]) return this.#readType(inner[0], depth + 1)
        return this.#readDeclared(this.#types.get(name), depth)
      }
      case 'TSObjectKeyword':
      case 'TSUnknownKeyword':
        return undefined
      default:
        this.open = true
    }
  }

  #readDeclared(declared, depth) {
    if (!declared || depth > DEPTH_MAX || this.#steps++ > STEPS_MAX) return void (this.open = true)
    if (declared.type === 'TSTypeAliasDeclaration') return this.#readType(declared.typeAnnotation, depth + 1)
    for (const { expression } of declared.extends ?? []) this.#readDeclared(this.#types.get(expression.name), depth + 1)
    this.#readMembers(declared.body.body)
  }

  #readMembers(members) {
    for (const member of members) {
      if (this.#steps++ > STEPS_MAX) return void (this.open = true)
      const name = member.key?.name ?? member.key?.value
      if (!/^TS(?:Property|Method)Signature$/.test(member.type) || member.computed || name === undefined) this.open = true
      else {
        const type = member.type === 'TSMethodSignature' ? '' : this.#text(member.typeAnnotation?.typeAnnotation)
        this.#add(String(name), !member.optional, type)
      }
    }
  }

  #add(name, required, type) {
    this.props.set(name, { name, required, type })
  }

  #text(node) {
    return node ? this.#source.text.slice(node.start, node.end).replace(/\s+/g, ' ').slice(0, TYPE_CHARS_MAX) : ''
  }
}

/** The props of `React.FC<Props>`. */
function componentType(type) {
  const name = type?.typeName?.name ?? type?.typeName?.right?.name
  return COMPONENT_TYPES.has(name) ? (type.typeArguments?.params[0] ?? null) : null
}
