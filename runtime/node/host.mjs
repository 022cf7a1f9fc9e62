/**
 * The page around the page: the document, the script that mounts the author's component, and the style sheet that loads
 * Tailwind. The document must not change the layout: a page as large as the viewport fills it exactly.
 */
import { kitStyle } from './kit.mjs'

/** Where the frameworks are served: by the Runtime, once, from their development builds (R10). */
export const VENDOR_FILES = {
  vue: 'vue.js',
  react: 'react.js',
  'react-dom': 'react-dom.js',
  'react-dom/client': 'react-dom-client.js',
  'react/jsx-runtime': 'react-jsx-runtime.js',
  'react/jsx-dev-runtime': 'react-jsx-dev-runtime.js',
}
export const vendorUrl = (specifier) => `/vendor/${VENDOR_FILES[specifier]}`

/**
 * The signal the Renderer waits for: `<html data-pagegate-mounted="1">` once the first tree is in the document,
 * `"failed"` when Vue says that it never will be.
 */
const SIGNAL = `const signal = (value) => { document.documentElement.dataset.pagegateMounted = value }\n`

/** What a component that is looked at alone is shown with (R7); a page has none. */
const PROPS = `const props = JSON.parse(document.getElementById('pagegate-props')?.textContent ?? '{}')\n`

const VUE = `import { createApp } from 'vue'
import Page from '@entry'
${SIGNAL}${PROPS}
try {
  createApp(Page, props).mount('#app')
  signal('1')
} catch (error) {
  signal('failed')
  throw error
}
`

/** A setup that awaits needs a boundary; without one Vue renders nothing. */
const VUE_ASYNC = `import { Suspense, createApp, h } from 'vue'
import Page from '@entry'
${SIGNAL}${PROPS}
try {
  createApp({ name: 'PageHost', render: () => h(Suspense, { onResolve: () => signal('1') }, { default: () => h(Page, props) }) }).mount('#app')
} catch (error) {
  signal('failed')
  throw error
}
`

const REACT = `import { createElement, useEffect } from 'react'
import { createRoot } from 'react-dom/client'
import Page from '@entry'
${SIGNAL}${PROPS}
function PageHost() {
  useEffect(() => signal('1'), [])
  return createElement(Page, props)
}
createRoot(document.getElementById('app')).render(createElement(PageHost))
`

export function entryScript(framework, { asyncSetup }) {
  const script = framework === 'react' ? REACT : asyncSetup ? VUE_ASYNC : VUE
  return `import './entry.css'\n${script}`
}

/** Tailwind looks for classes in the task's own modules, each named, and nowhere else. */
export function entryStyle(relativeFiles, withKit) {
  const sources = relativeFiles.map((file) => `@source ${JSON.stringify(`./${file}`)};`)
  return ['@import "tailwindcss" source(none);', ...sources, ...(withKit ? [kitStyle()] : [])].join('\n')
}

/** `frameworkFiles` are asked for along with the page's own script: found one by one, each would cost a round trip. */
export function document(task, { hasStyle, frameworkFiles }) {
  const { title, speaker_notes: notes } = task.page
  const fixed = task.canvas.height_px !== null
  const style = `html, body { margin: 0;${fixed ? ' height: 100%;' : ''} } #app { display: contents; }`
  const preloads = frameworkFiles.map((file) => `<link rel="modulepreload" href="/vendor/${file}">\n`).join('')
  return `<!doctype html>
<html lang="${language(task)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title || task.page.code)}</title>
${notes ? `<meta name="speaker-notes" content="${escaped(notes)}">\n` : ''}<link rel="icon" href="data:,">
<style>${style}</style>
${hasStyle ? `<link rel="stylesheet" href="${task.base}page.css">\n` : ''}${preloads}<script type="module" src="${task.base}page.js"></script>
</head>
<body><div id="app"></div></body>
</html>
`
}

/** One Han character is drawn differently in Chinese, Japanese and Korean fonts: the document has to say which. */
function language(task) {
  const text = `${task.page.title} ${task.source(task.entry).text}`
  if (/[\u3040-\u30ff]/.test(text)) return 'ja'
  if (/[\uac00-\ud7af]/.test(text)) return 'ko'
  return /[\u4e00-\u9fff]/.test(text) ? 'zh-CN' : 'en'
}

const escaped = (text) =>
  text.replace(/[&<>"]/g, (char) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[char])
