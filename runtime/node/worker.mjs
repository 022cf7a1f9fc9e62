/**
 * The long-lived Node worker of a slot (V4): one task at a time, asked and answered over a socket of its own.
 *
 * Hears lines of JSON on the file descriptor it is given: `{id, op, ...}`, op being "compile", "build"
 * or "light". Tells, on the same socket: `{ready}` once it is
 * warm, then `{id, ok, ...}` for each question. Standard output and error carry nothing but the noise of libraries.
 *
 * Survives a refused source. A rejection that nobody handled may have left Vite half-way, so it ends the task with an
 * error and the process with it. A loop that never ends is the parent's to kill; when the parent goes, this goes.
 */
import net from 'node:net'
import { createInterface } from 'node:readline'
import v8 from 'node:v8'
import { spent } from './depth.mjs'

/** A worker without work gives back what the last compiles left behind. */
const IDLE_MS = 1000

const [socketFd, vendorDir, workDir, lane = 'check', warmUpRounds = '1'] = process.argv.slice(2)
const socket = new net.Socket({ fd: Number(socketFd), readable: true, writable: true })
socket.on('close', () => process.exit(0))
socket.on('error', () => process.exit(0))

let current = null
let idle

function tell(message, done) {
  socket.write(`${JSON.stringify(message)}\n`, done)
}

function lost(error) {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  tell({ id: current, ok: false, message: message.replaceAll(workDir, '') }, () => process.exit(1))
}
process.on('unhandledRejection', lost)
process.on('uncaughtException', lost)

function heap() {
  const { used_heap_size: used, heap_size_limit: limit } = v8.getHeapStatistics()
  return { heap_used_bytes: used, heap_limit_bytes: limit }
}

/** The compiler is heavy, and a light tool does without it. */
async function compiling() {
  const [{ compile }, { readVendor }, { warmUp }] = await Promise.all([import('./compile.mjs'), import('./vendor.mjs'), import('./warm_up.mjs')])
  const frameworks = readVendor(vendorDir)
  if (lane === 'check') await warmUp(workDir, frameworks, Number(warmUpRounds))
  return { compile: (order) => compile(order, frameworks) }
}

async function lightTools() {
  const { runLight } = await import('./light.mjs')
  return { light: runLight }
}

async function building() {
  const [{ buildSite }, { readVendor }] = await Promise.all([import('./build.mjs'), import('./vendor.mjs')])
  const frameworks = readVendor(vendorDir)
  return { ...(await compiling()), build: (order) => buildSite(order, frameworks) }
}

const operations = await ({ light: lightTools, build: building }[lane] ?? compiling)()
tell({ ready: true, node: process.version, ...heap() })

for await (const line of createInterface({ input: socket, crlfDelay: Infinity })) {
  const order = JSON.parse(line)
  current = order.id
  clearTimeout(idle)
  try {
    const { errors, files, result, timings } = await operations[order.op ?? 'compile'](order)
    // A rejection that nobody waited for is reported after the promises have settled: give it the chance to end the task.
    await new Promise(setImmediate)
    tell({ id: order.id, ok: true, errors, files, result, timings, ...heap() }, () => {
      if (spent()) process.kill(process.pid, 'SIGKILL') // a thread of it never ends, and would be waited for
    })
  } catch (error) {
    lost(error)
  }
  current = null
  idle = setTimeout(() => globalThis.gc?.(), IDLE_MS)
}
