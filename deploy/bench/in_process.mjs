/**
 * The floor under a compile: Vite's own `build()` in a warm process, with the options of the Runtime and nothing around it.
 *
 * Hears a line for each build; tells its milliseconds on a line. The sources lie in the working directory as they are;
 * nothing is inspected, guarded, marked or copied.
 */
import { createRequire } from 'node:module'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const root = process.cwd()
const packages = createRequire(path.join(root, 'package.json'))
const load = (name) => import(pathToFileURL(packages.resolve(name)))
const [{ build }, { default: vue }, { default: tailwindcss }] = await Promise.all([
  load('vite'),
  load('@vitejs/plugin-vue'),
  load('@tailwindcss/vite'),
])

async function once() {
  const started = performance.now()
  await build({
    root,
    cacheDir: path.join(root, '.vite'),
    configFile: false,
    envDir: false,
    publicDir: false,
    css: { postcss: {} },
    logLevel: 'silent',
    mode: 'development',
    resolve: { alias: { '@components': path.join(root, 'components'), '@assets': path.join(root, 'assets') } },
    plugins: [tailwindcss({ optimize: false }), vue({ isProduction: false })],
    build: {
      write: false,
      target: 'esnext',
      minify: false,
      cssMinify: false,
      sourcemap: 'hidden',
      modulePreload: false,
      reportCompressedSize: false,
      assetsInlineLimit: 0,
      rolldownOptions: {
        experimental: { attachDebugInfo: 'none' },
        external: ['vue'],
        input: path.join(root, 'main.js'),
        output: { format: 'es', codeSplitting: false, entryFileNames: 'page.js', assetFileNames: 'page[extname]' },
      },
    },
  })
  return performance.now() - started
}

await once()
await once()
process.stdout.write('ready\n')
for await (const _ of createInterface({ input: process.stdin })) process.stdout.write(`${await once()}\n`)
