/**
 * The light tools (V9): each a function from its input, and perhaps a file, to a result or to refusals.
 *
 * Owns the table of tools. A tool is loaded with its first task: it gets `{dir, input, file}` (`dir` is the folder of the
 * task, `file` the path of the file that came along, or null) and gives `{result}` or `{errors}` as `refusal` makes them.
 */
import { refusal } from './errors.mjs'

const TOOLS = {
  'visual-edit': async () => (await import('./light/visual_edit.mjs')).visualEdit,
  'asset-ratio': async () => (await import('./light/measure.mjs')).assetRatio,
}

export async function runLight({ dir, tool, input, file }) {
  const started = performance.now()
  const load = Object.hasOwn(TOOLS, tool) ? TOOLS[tool] : undefined
  const { errors = [], result = {} } = load ? await (await load())({ dir, input, file }) : { errors: [unknown(tool)] }
  return { errors, result: errors.length ? {} : result, timings: { tool_ms: Math.round((performance.now() - started) * 10) / 10 } }
}

const unknown = (tool) => refusal('LIGHT_TOOL_UNKNOWN', `This Runtime has no light tool "${tool}".`)
