/**
 * What a component takes and offers (D4): its props, events and slots, read from the source that its check compiles.
 *
 * A contract is `{props: [{name, required, type}], events, slots, open: {props, events, slots}}`. Where the source leaves
 * it to run time or to another file what there is, the part is `open`: what is listed exists, and there may be more.
 */
import { vueContract } from './contract_vue.mjs'
import { reactContract } from './contract_react.mjs'
import { refusal } from './errors.mjs'
import { judge } from './imports.mjs'

const NAMES_MAX = 200
const NAME_CHARS_MAX = 100

/** The contract of the task's entry; `null` for a source that has errors. Adds to `found.errors` what no component may be. */
export function readContract(task, found) {
  refuseCircle(task, found)
  if (found.errors.length) return null
  const source = task.source(task.entry)
  const seen = found.modules.get(task.entry)
  const contract = task.framework === 'react' ? reactContract(source, seen) : vueContract(source, task)
  if (contract.error) {
    found.errors.push(refusal(contract.error.code, contract.error.message, { source, ...contract.error }))
    return null
  }
  const { open } = contract
  const listed = (part, items, nameOf) => {
    const all = [...items]
    const kept = all.filter((item) => nameOf(item).length <= NAME_CHARS_MAX)
    if (kept.length < all.length || kept.length > NAMES_MAX) open[part] = true
    return kept.slice(0, NAMES_MAX).toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
  }
  const [props, events, slots] = [
    listed('props', contract.props.values(), ({ name }) => name),
    listed('events', contract.events, (name) => name),
    listed('slots', contract.slots, (name) => name),
  ]
  return { props, events, slots, open }
}

/** A component that needs itself to be there first, over others or at once: the shortest way back is told. */
function refuseCircle(task, found) {
  const before = new Map([[task.entry, null]])
  const waiting = [task.entry]
  while (waiting.length) {
    const logical = waiting.shift()
    for (const { module } of modulesOf(logical, found, task)) {
      if (module === task.entry) return void found.errors.push(circle(logical, before, task, found))
      if (before.has(module)) continue
      before.set(module, logical)
      waiting.push(module)
    }
  }
}

/** `last` imports the entry; `before` has the way there. */
function circle(last, before, task, found) {
  const way = []
  for (let at = last; at; at = before.get(at)) way.unshift(at)
  const next = way[1] ?? task.entry
  const { offset } = modulesOf(task.entry, found, task).find(({ module }) => module === next)
  const shown = [...way, task.entry].map((path) => path.replace(/^(?:components|pages)\//, '')).join(' → ')
  const itself = way.length === 1
  const message = itself ? 'The component imports itself.' : `These use each other in a circle: ${shown}.`
  const hint = itself
    ? 'Remove the import; a component that repeats itself is there under its own name.'
    : 'Take what both need out into a component of its own, or pass it through a slot.'
  return refusal('COMPONENT_CYCLE', message, { source: task.source(task.entry), offset, hint })
}

function modulesOf(logical, found, task) {
  const seen = found.modules.get(logical)
  return (seen?.imports ?? []).map(({ specifier, offset }) => ({ module: judge(specifier, logical, task).module, offset })).filter(({ module }) => module)
}
