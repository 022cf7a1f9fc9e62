/** The thread of `depth.mjs`: parses one script and answers how deep its syntax tree is, or what is wrong with it. */
import { workerData } from 'node:worker_threads'
import { parseSync } from 'rolldown/utils'

const { text, lang, answered, port } = workerData
const parsed = parseSync(`page.${lang}`, text, { lang, sourceType: 'module', showSemanticErrors: true })
const errors = parsed.errors.map(({ message, helpMessage, labels }) => ({ message, helpMessage, labels: labels.map(({ start }) => ({ start })) }))
port.postMessage({ depth: errors.length ? 0 : treeDepth(parsed.program), errors })
Atomics.store(answered, 0, 1)
Atomics.notify(answered, 0)

function treeDepth(program) {
  let deepest = 0
  const waiting = [[program, 1]]
  while (waiting.length) {
    const [node, depth] = waiting.pop()
    deepest = Math.max(deepest, depth)
    for (const key in node) {
      const value = node[key]
      if (value === null || typeof value !== 'object') continue
      for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === 'string') waiting.push([child, depth + 1])
    }
  }
  return deepest
}
