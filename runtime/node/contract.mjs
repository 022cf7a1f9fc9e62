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

/** The contract of the task's entry; `null` for a source that has errors. Adds to `found.errors` what no component may be. */
export function readContract(task, found) {
  refuseCircle(task, found)
  if (found.errors.length) return null
  const source = task.source(task.entry)
  const seen = found.modules.get(task.entry)
  const contract = task.framework === 'react' ? reactContract(source, seen) : vueContract(source, task)
  if (contract.error) found.errors.push(refusal(contract.error.code, contract.error.message, { source, ...contract.error }))
  if (found.errors.length) return null
  const { props, events, slots, open } = contract
  return { props: [...props.values()].toSorted(byName), events: [...events].toSorted(), slots: [...slots].toSorted(), open }
}

const byName = (one, other) => (one.name < other.name ? -1 : 1)

/** A component that needs itself to be there first, over others or at once. */
function refuseCircle(task, found) {
  const source = task.source(task.entry)
  for (const { module, offset } of modulesOf(task.entry, found, task)) {
    const way = wayBack(module, task, found)
    if (!way) continue
    const shown = [task.entry, ...way].map((path) => path.replace(/^(?:components|pages)\//, '')).join(' → ')
    const itself = way.length === 1
    const message = itself ? 'The component imports itself.' : `These use each other in a circle: ${shown}.`
    const hint = itself
      ? 'Remove the import; a component that repeats itself is there under its own name.'
      : 'Take what both need out into a component of its own, or pass it through a slot.'
    found.errors.push(refusal('COMPONENT_CYCLE', message, { source, offset, hint }))
    return
  }
}

function modulesOf(logical, found, task) {
  const seen = found.modules.get(logical)
  return (seen?.imports ?? []).map(({ specifier, offset }) => ({ module: judge(specifier, logical, task).module, offset })).filter(({ module }) => module)
}

/** The modules from `start` back to the entry, both in it; null when there is no way. */
function wayBack(start, task, found) {
  const before = new Map([[start, null]])
  const waiting = [start]
  while (waiting.length) {
    const logical = waiting.shift()
    if (logical === task.entry) {
      const way = []
      for (let at = logical; at; at = before.get(at)) way.unshift(at)
      return way
    }
    for (const { module } of modulesOf(logical, found, task)) {
      if (before.has(module)) continue
      before.set(module, logical)
      waiting.push(module)
    }
  }
  return null
}
