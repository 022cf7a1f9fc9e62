/** Steps through a parsed script, whichever nodes it is made of. */

export function walk(node, visit) {
  if (!visit(node)) return
  for (const child of childrenOf(node)) walk(child, visit)
}

export function* childrenOf(node) {
  for (const key in node) {
    const value = node[key]
    if (value === null || typeof value !== 'object') continue
    if (Array.isArray(value)) yield* value.filter((child) => typeof child?.type === 'string')
    else if (typeof value.type === 'string') yield value
  }
}
