/**
 * Finds scripts that are nested too deeply before a parser does (X3).
 *
 * The parsers are recursive and written in Rust: a chain of some thousand arrows, conditions or elements overflows their
 * stack, and that ends the whole process. So a script that holds enough of what could be nested is parsed on a thread with
 * a large stack first; it costs a page of ordinary size nothing.
 */
import { MessageChannel, Worker, receiveMessageOnPort } from 'node:worker_threads'

/** Deeper than this nobody writes, and the walkers that follow are recursive too. */
export const DEPTH_MAX = 2000
const STACK_MB = 512
const WAIT_MS = 10_000 // a page takes milliseconds
/** Measured: a parser on an ordinary stack holds 5,000 of the first kind, or 20,000 of the second. */
const COSTLY = /=>|[?=:)]|<(?!\/)|\b(?:else|do|keyof|typeof|readonly|unique|infer|await|new|void|delete|yield|declare|abstract|async|static|accessor)\b/g
const CHEAP = /[`!~+\-*/%|&^.,[]|\b(?:as|satisfies|extends|in|of|instanceof)\b/g
const SHARE_CHECKED = 0.8
const SHARE_MAX = 60 // what the large stack holds

/** True once a parser is at it in a thread and cannot be ended: the process has to go after its answer. */
export const spent = () => stuck
let stuck = false

/**
 * Null for a script that may be parsed. `{tooDeep: true}` for one that may not: it is deeper than `DEPTH_MAX`, or holds more
 * than anyone can tell. `{errors}` for one that does not parse, and must not be tried again here.
 */
export function vet({ text, lang }) {
  if (bracketDepth(text) > DEPTH_MAX) return { tooDeep: true }
  const share = count(text, COSTLY) / 5000 + count(text, CHEAP) / 20_000
  if (share < SHARE_CHECKED) return null
  const found = share > SHARE_MAX ? null : parsedOnLargeStack(text, lang)
  if (!found || found.depth > DEPTH_MAX) return { tooDeep: true }
  return found.errors.length ? { errors: found.errors } : null
}

function count(text, pattern) {
  let found = 0
  pattern.lastIndex = 0
  while (pattern.test(text)) found++
  return found
}

/** How deep the brackets of a text are, those in its strings and comments included. */
export function bracketDepth(text) {
  let depth = 0
  let deepest = 0
  for (let index = 0; index < text.length; index++) {
    const char = text.charCodeAt(index)
    if (char === 0x28 || char === 0x5b || char === 0x7b) deepest = Math.max(deepest, ++depth)
    else if (char === 0x29 || char === 0x5d || char === 0x7d) depth--
  }
  return deepest
}

/** `{depth, errors}`, or null when the parser does not come to an end. */
function parsedOnLargeStack(text, lang) {
  const { port1: here, port2: there } = new MessageChannel()
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(new URL('./depth_thread.mjs', import.meta.url), {
    workerData: { text, lang, answered, port: there },
    transferList: [there],
    resourceLimits: { stackSizeMb: STACK_MB },
  })
  worker.on('error', () => {})
  worker.unref()
  const woken = Atomics.wait(answered, 0, 0, WAIT_MS)
  void worker.terminate()
  const found = receiveMessageOnPort(here)?.message ?? null
  here.close()
  stuck ||= woken === 'timed-out'
  return found
}
