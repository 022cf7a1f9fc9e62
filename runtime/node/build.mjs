/**
 * A production build (B1): every page of a site, each a document of its own, over one copy of each framework.
 *
 * A page is compiled alone, exactly as its check compiled it but for what only helps an author: so it looks as the check
 * saw it, whatever its neighbours are, and Vue and React stand side by side. Writes `pages/<number>/` and `vendor/` below
 * the folder of the site; the rest of the site is the Runtime's (`site.py`). Errors of all pages are told together.
 */
import fs from 'node:fs'
import path from 'node:path'

import { compile } from './compile.mjs'
import { PRODUCTION } from './vendor.mjs'

/** From a page's folder to the site's. */
const BASE = '../../'
const KEYS = `<script src="${BASE}site/keys.js"></script>\n`

/** `{errors, files, result, timings}`; `files` stays empty: they are on disk, in `order.dir`. */
export async function buildSite(order, vendor) {
  const started = performance.now()
  const errors = []
  const frameworks = new Set()
  process.env.NODE_ENV = 'production' // Vite and its plugins go by it; the process is a build's own and ends with it
  for (const [index, page] of order.pages.entries()) {
    const number = index + 1
    const dir = path.join(order.dir, `task-${number}`)
    fs.mkdirSync(dir)
    const modules = Object.fromEntries(Object.entries(page.modules).map(([logical, digest]) => [logical, order.sources[digest]]))
    const made = await compile({ ...page, dir, modules, base: BASE, production: true }, vendor)
    errors.push(...made.errors)
    fs.rmSync(dir, { recursive: true, force: true })
    if (errors.length) continue // the other pages may have errors too, and it is said in one answer
    frameworks.add(page.framework)
    write(path.join(order.dir, 'site', 'pages', String(number)), standing(made.files, page, vendor))
  }
  if (!errors.length) copyFrameworks(path.join(order.dir, 'site', 'vendor'), vendor, frameworks)
  const timings = { build_ms: Math.round((performance.now() - started) * 10) / 10 }
  return { errors: once(errors), files: {}, result: { pages: order.pages.length }, timings }
}

/** The page's files as they lie in the site: found by relative addresses, so that the site works below any address. */
function standing(files, page, vendor) {
  const development = vendor.files[page.framework].map((file) => `<link rel="modulepreload" href="/vendor/${file}">\n`).join('')
  const production = vendor.production[page.framework].map((file) => `<link rel="modulepreload" href="${BASE}vendor/${file}">\n`).join('')
  const html = files['index.html']
    .replace(development, () => production)
    .replace(`href="${BASE}page.css"`, 'href="page.css"')
    .replace(`<script type="module" src="${BASE}page.js">`, `${KEYS}<script type="module" src="page.js">`)
  return { ...files, 'index.html': html }
}

function write(dir, files) {
  fs.mkdirSync(dir, { recursive: true })
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(dir, name), text)
}

function copyFrameworks(dir, vendor, frameworks) {
  fs.mkdirSync(dir, { recursive: true })
  for (const framework of frameworks) {
    for (const file of vendor.production[framework]) fs.copyFileSync(path.join(vendor.dir, PRODUCTION, file), path.join(dir, file))
  }
}

/** A component that several pages use is wrong once, not once for each of them. */
function once(errors) {
  const seen = new Map(errors.map((error) => [JSON.stringify([error.code, error.file, error.line, error.column, error.message]), error]))
  return [...seen.values()]
}
