/**
 * One compile: inspect the sources, build them with Vite, and answer with the page's files or with located errors (V8).
 *
 * Every task gets a fresh build with fresh plugins: a reused one carries classes of earlier pages into later style sheets.
 */
import path from 'node:path'

import react from '@vitejs/plugin-react'
import vue from '@vitejs/plugin-vue'
import { build } from 'vite'
import { readContract } from './contract.mjs'
import { ordered, refusal } from './errors.mjs'
import { guard } from './guard.mjs'
import { document } from './host.mjs'
import { inspect } from './inspect.mjs'
import { showAssets } from './inspect_style.mjs'
import { locate } from './locate.mjs'
import { vueMarks } from './mark.mjs'
import { logicalMap } from './maps.mjs'
import { severable } from './severable.mjs'
import { tailwindcss } from './tailwind.mjs'
import { Task } from './task.mjs'
import { typeFiles } from './types.mjs'
import { readUses } from './uses.mjs'
import { compilerFor, forget } from './vue_compiler.mjs'

const OUTPUT_CHARS_MAX = 24 * 1024 * 1024

/**
 * `{errors, files, result, timings}`; `files` is empty exactly when there are errors. `result` has what was asked for:
 * `order.contract`, that of the entry, which is a component; `order.usesOf`, how the other modules use this one.
 */
export async function compile(order, vendor) {
  const started = performance.now()
  const task = new Task(order)
  const found = inspectOrRefuse(task)
  const result = {}
  if (order.contract) result.contract = readContract(task, found)
  if (order.usesOf && !found.errors.length) result.uses = readUses(task, found, order.usesOf)
  const inspected = performance.now()
  const answer = (files) => ({
    errors: ordered(found.errors, found.paths),
    files: found.errors.length ? {} : files,
    result,
    timings: { inspect_ms: rounded(inspected - started), vite_ms: rounded(performance.now() - inspected) },
  })
  if (found.errors.length) return answer({})
  task.write(found.paths)
  const { plugins, cut } = severable(tailwindcss({ optimize: false }))
  try {
    const { output } = await build(config(task, found, vendor, plugins))
    return answer(files(output, task, found, vendor))
  } catch (error) {
    found.errors.push(...locate(error, task, found))
    return answer({})
  } finally {
    forget(task, found)
    cut()
  }
}

/** A source that is nested so deeply that it cannot be read ends here, and not the worker with it. */
function inspectOrRefuse(task) {
  try {
    return inspect(task)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    const source = task.source(task.entry)
    const refused = refusal('PAGE_SOURCE_TOO_LARGE', 'The source is nested too deeply.', { source, offset: 0 })
    return { paths: [task.entry], errors: [refused], modules: new Map(), asyncSetup: false }
  }
}

const rounded = (ms) => Math.round(ms * 10) / 10

function config(task, found, vendor, tailwind) {
  const { first, afterTailwind, last } = guard(task, found, vendor)
  return {
    root: task.dir,
    cacheDir: path.join(task.dir, '.vite'),
    configFile: false,
    envDir: false,
    publicDir: false,
    css: { postcss: {} },
    logLevel: 'silent',
    mode: task.production ? 'production' : 'development',
    plugins: [first, ...tailwind, afterTailwind, ...framework(task, found), last],
    build: {
      write: false,
      target: 'esnext',
      minify: task.production,
      cssMinify: task.production,
      sourcemap: task.production ? false : 'hidden',
      modulePreload: false,
      reportCompressedSize: false,
      assetsInlineLimit: 0,
      rolldownOptions: {
        experimental: { attachDebugInfo: 'none' },
        input: path.join(task.dir, 'entry.js'),
        output: {
          format: 'es',
          codeSplitting: false,
          topLevelVar: false, // `var` would hide that two modules use each other before they are there
          entryFileNames: 'page.js',
          assetFileNames: 'page[extname]',
          ...(task.production && { paths: (id) => (id.startsWith('/vendor/') ? task.base + id.slice(1) : id) }),
        },
      },
    },
  }
}

function framework(task, found) {
  if (task.framework === 'react') return [react()]
  return [
    vue({
      compiler: compilerFor(task, found),
      isProduction: task.production,
      script: { fs: typeFiles(task) },
      template: {
        transformAssetUrls: { includeAbsolute: false, tags: {} }, // vueMarks does it, and knows the assets
        compilerOptions: { nodeTransforms: [vueMarks(task, found)] },
      },
    }),
  ]
}

function files(output, task, found, vendor) {
  const chunk = output.find((file) => file.fileName === 'page.js')
  const style = output.find((file) => file.fileName === 'page.css')
  const made = {
    'index.html': document(task, { hasStyle: Boolean(style), frameworkFiles: vendor.files[task.framework] }),
    'page.js': withLogicalPaths(chunk.code, task, found),
    ...(chunk.map && { 'page.js.map': JSON.stringify(logicalMap(chunk.map, task)) }),
  }
  if (style) made['page.css'] = showAssets(String(style.source), task)
  const size = Object.values(made).reduce((sum, text) => sum + text.length, 0)
  if (size > OUTPUT_CHARS_MAX) {
    found.errors.push(refusal('PAGE_OUTPUT_TOO_LARGE', `The compiled page has ${size} characters; ${OUTPUT_CHARS_MAX} are the limit.`))
  }
  return made
}

const stem = (file) => path.posix.basename(file, path.posix.extname(file))

/** Development code names its files, for the warnings of the frameworks: let the names be the logical ones. */
function withLogicalPaths(code, task, found) {
  const quoted = (text) => JSON.stringify(text).slice(1, -1)
  let plain = code
  for (const logical of found.paths) {
    const file = task.file(logical)
    plain = plain.replaceAll(quoted(file), () => quoted(logical))
    if (stem(file) !== stem(logical)) plain = plain.replace(`__name: ${JSON.stringify(stem(file))}`, () => `__name: ${JSON.stringify(stem(logical))}`)
  }
  if (plain.includes(task.dir)) throw new Error('The compiled page names its folder.')
  return plain
}
