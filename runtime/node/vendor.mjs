/**
 * The frameworks as the page loads them: development builds, bundled once per lock file and served under `/vendor/` (R10).
 * Beside them, in `production/`, the small ones that a built site takes along (B1).
 *
 * Kept on disk in a folder named by what it was made of; made aside and renamed, so that half a folder is never seen.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { FRAMEWORK_MODULES } from './imports.mjs'
import { VENDOR_FILES } from './host.mjs'

const here = import.meta.dirname
const require = createRequire(import.meta.url)

/** Names stay as they are, for stacks and warnings; only white space goes: every fresh browser loads all of it. */
const MINIFY = { compress: false, mangle: false, codegen: { removeWhitespace: true } }

/** `{dir, exports, files}` of a folder that `bundle` made: what each framework module exports, each framework's files. */
export function readVendor(dir) {
  return { dir, ...JSON.parse(fs.readFileSync(path.join(dir, MANIFEST), 'utf8')) }
}

const MANIFEST = 'manifest.json'
export const PRODUCTION = 'production'

/** The folder for these packages, made when it is not there yet. */
export async function bundle(cacheDir) {
  const dir = path.join(cacheDir, `vendor-${digest()}`)
  if (!fs.existsSync(path.join(dir, MANIFEST))) await make(dir)
  return dir
}

function digest() {
  const hash = createHash('sha256')
  for (const file of ['package-lock.json', 'vendor.mjs', 'host.mjs']) hash.update(fs.readFileSync(path.join(here, file)))
  return hash.digest('hex').slice(0, 16)
}

async function make(dir) {
  const vite = await import('vite') // heavy, and mostly not needed
  const aside = `${dir}.${process.pid}`
  fs.rmSync(aside, { recursive: true, force: true })
  fs.mkdirSync(aside, { recursive: true })
  try {
    const vue = copyVue(aside, vite)
    const react = await bundleReact(aside, vite)
    const built = path.join(aside, PRODUCTION)
    fs.mkdirSync(built)
    const production = { vue: copyBuiltVue(built), react: (await bundleReact(built, vite, { production: true })).files }
    const manifest = { exports: { vue: vue.exports, ...react.exports }, files: { vue: vue.files, react: react.files }, production }
    fs.writeFileSync(path.join(aside, MANIFEST), JSON.stringify(manifest))
    fs.renameSync(aside, dir)
  } catch (error) {
    fs.rmSync(aside, { recursive: true, force: true })
    if (!fs.existsSync(dir)) throw error // otherwise another process was quicker
  }
}

/** Vue publishes its development build for browsers; templates are compiled before, so the runtime is enough. */
function copyVue(dir, { minifySync, parseSync }) {
  const code = fs.readFileSync(path.join(path.dirname(require.resolve('vue/package.json')), 'dist/vue.runtime.esm-browser.js'), 'utf8')
  fs.writeFileSync(path.join(dir, VENDOR_FILES.vue), minifySync('vue.js', code, { module: true, ...MINIFY }).code)
  const { module } = parseSync('vue.js', code, { lang: 'js', sourceType: 'module' })
  const exports = module.staticExports.flatMap((e) => e.entries.map((entry) => entry.exportName.name))
  return { exports, files: [VENDOR_FILES.vue] }
}

function copyBuiltVue(dir) {
  const file = path.join(path.dirname(require.resolve('vue/package.json')), 'dist/vue.runtime.esm-browser.prod.js')
  fs.copyFileSync(file, path.join(dir, VENDOR_FILES.vue))
  return [VENDOR_FILES.vue]
}

/** React publishes CommonJS only: each module becomes an ES module that names its exports, over shared chunks. */
async function bundleReact(dir, { build }, { production = false } = {}) {
  const exports = {}
  const entries = {}
  for (const specifier of FRAMEWORK_MODULES.react) {
    const names = Object.keys(require(specifier)).filter((name) => /^[A-Za-z_$][\w$]*$/.test(name) && name !== 'default')
    exports[specifier] = [...names, 'default']
    entries[VENDOR_FILES[specifier].replace(/\.js$/, '')] = { specifier, names }
  }
  const prefix = 'pagegate:vendor/'
  const virtual = {
    name: 'pagegate:vendor',
    enforce: 'pre',
    resolveId: (id) => (id.startsWith(prefix) ? `\0${id}` : null),
    load(id) {
      if (!id.startsWith(`\0${prefix}`)) return null
      const { specifier, names } = entries[id.slice(prefix.length + 1)]
      const from = JSON.stringify(specifier)
      return `import all from ${from}\nexport default all\nexport { ${names.join(', ')} } from ${from}`
    },
  }
  const { output } = await build({
    root: here,
    configFile: false,
    envDir: false,
    publicDir: false,
    css: { postcss: {} },
    logLevel: 'silent',
    mode: production ? 'production' : 'development',
    define: { 'process.env.NODE_ENV': JSON.stringify(production ? 'production' : 'development') },
    plugins: [virtual],
    build: {
      outDir: dir,
      emptyOutDir: false,
      minify: false,
      target: 'esnext',
      modulePreload: false,
      rolldownOptions: {
        input: Object.fromEntries(Object.keys(entries).map((name) => [name, prefix + name])),
        preserveEntrySignatures: 'strict',
        output: { entryFileNames: '[name].js', chunkFileNames: 'chunk-[hash].js', minify: production || MINIFY },
      },
    },
  })
  return { exports, files: closure(output, ['react.js', 'react-dom-client.js', production ? 'react-jsx-runtime.js' : 'react-jsx-dev-runtime.js']) }
}

/** These files and all that they import: what every page of the framework loads. */
function closure(output, names) {
  const imports = new Map(output.map((chunk) => [chunk.fileName, chunk.imports ?? []]))
  const files = new Set(names)
  for (const file of files) for (const imported of imports.get(file) ?? []) files.add(imported)
  return [...files]
}

if (process.argv[1] === import.meta.filename) process.stdout.write(await bundle(process.argv[2]))
