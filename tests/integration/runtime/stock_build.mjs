/**
 * Vite as it comes, with none of the first wall: what a page asks for is read, and what it names is run.
 *
 * `node stock_build.mjs HOME SLOT`: builds each `{name, files}` of SLOT/orders.json in a folder of its own and writes
 * SLOT/told.json, `{name: everything that came out}`.
 */
import fs from 'node:fs'
import module from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [home, slot] = process.argv.slice(2)
const require = module.createRequire(path.join(home, 'package.json'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const { build } = await load('vite')
const { default: vue } = await load('@vitejs/plugin-vue')
const { default: tailwindcss } = await load('@tailwindcss/vite')
process.on('unhandledRejection', () => {})

const told = {}
for (const { name, files } of JSON.parse(fs.readFileSync(path.join(slot, 'orders.json'), 'utf8'))) {
  const root = fs.mkdtempSync(path.join(slot, 'task-'))
  for (const [file, text] of Object.entries({ 'entry.js': "import P from './page.vue'; console.log(P)", ...files })) {
    fs.writeFileSync(path.join(root, file), text)
  }
  try {
    const { output } = await build({
      root,
      configFile: false,
      logLevel: 'silent',
      plugins: [tailwindcss(), vue()],
      build: { write: false, minify: false, rolldownOptions: { input: path.join(root, 'entry.js'), external: ['vue'] } },
    })
    told[name] = output.map((file) => String(file.code ?? Buffer.from(file.source).toString('latin1'))).join('\n')
  } catch (error) {
    told[name] = `${error.stack} ${JSON.stringify(error.errors ?? [])}`
  }
}
fs.writeFileSync(path.join(slot, 'told.json'), JSON.stringify(told))
process.exit(0)
