/**
 * What a kit component may be given, the same for both frameworks. What cannot be shown at all throws; what is merely
 * ignored is told on the console. Both reach the author as findings that name the component and what it takes.
 */

const KINDS = {
  text: { called: 'a text', of: (value) => (typeof value === 'string' || typeof value === 'number' ? String(value) : undefined) },
  number: { called: 'a number', of: (value) => (value !== '' && typeof value !== 'boolean' && Number.isFinite(Number(value)) ? Number(value) : undefined) },
  flag: { called: 'true or false', of: (value) => (typeof value === 'boolean' ? value : undefined) },
  list: { called: 'a list', of: (value) => (Array.isArray(value) ? value : undefined) },
}

/**
 * The settled props of `component`: every name of its table has a value of its kind, its default, or undefined.
 * `place` is where the author wrote the tag, `pages/x.vue:12:5`, when that is known.
 */
export function settle(component, given, strangers, place) {
  const { name, props } = component
  const said = (problem) => `[kit] <${name}> ${problem}${place ? ` (${place})` : ''}`
  const problems = []
  const refuse = (problem) => {
    throw new TypeError(said([...problems, problem].join(' It ')))
  }
  if (strangers.length) problems.push(`has no ${strangers.length > 1 ? 'props' : 'prop'} ${strangers.map(quoted).join(', ')}; it takes ${takes(component)}.`)
  const settled = {}
  for (const [prop, { kind, required, choices, like, fallback }] of Object.entries(props)) {
    const written = given[prop]
    const missing = written === undefined || written === null
    let value = missing ? undefined : KINDS[kind].of(written)
    if (choices && value !== undefined && !choices.includes(value)) value = undefined
    if (value === undefined && (required || !missing)) {
      const wanted = choices ? `one of ${choices.join(', ')}` : like ? `${KINDS[kind].called} like ${like}` : KINDS[kind].called
      const problem = `needs "${prop}" to be ${wanted}; it got ${shown(written)}.`
      if (required) refuse(problem)
      problems.push(problem)
    }
    settled[prop] = value ?? fallback
  }
  component.check?.(settled, refuse)
  if (problems.length) tell(said(problems.join(' It ')))
  return settled
}

/** What every component takes beside its own props: it lands on its outermost element. */
export const isForElement = (name) => /^(?:class|className|style|id|role|ref|key|onVnode\w+|data-.*|aria-.*|on[A-Z]\w*)$/.test(name)

function takes({ props, children }) {
  const names = Object.entries(props).map(([prop, { required }]) => (required ? `${prop} (required)` : prop))
  return [...names, children ? 'children' : null].filter(Boolean).join(', ')
}

const told = new Set()

/** Once each: a component is drawn again and again. */
function tell(text) {
  if (told.has(text)) return
  told.add(text)
  console.error(text)
}

const quoted = (name) => `"${name}"`

function shown(value) {
  if (value === undefined || value === null) return 'nothing'
  const text = typeof value === 'function' ? 'a function' : JSON.stringify(value) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
