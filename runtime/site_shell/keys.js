// Runs inside a page that a host shows, before its own scripts: keys that turn pages are told to the host, because a page that has focus
// would keep them to itself; and so is the height of a page that decides its own. The host believes nothing else.
;(() => {
  const turning = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'PageUp', 'PageDown', 'Home', 'End', 'Escape', 'n', 'l', 'f'])
  const tell = (message) => parent.postMessage({ pagegate: message }, '*')
  const writing = (target) =>
    target instanceof Element && (target.closest('input, textarea, select, [contenteditable], video, audio') || target.getRootNode() instanceof ShadowRoot)
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || writing(event.target)) return
    if (turning.has(event.key)) tell({ key: event.key })
  })
  addEventListener('DOMContentLoaded', () => {
    const measure = () => tell({ height: Math.ceil(Math.max(document.documentElement.getBoundingClientRect().height, document.body.scrollHeight)) })
    new ResizeObserver(measure).observe(document.documentElement)
    new ResizeObserver(measure).observe(document.body)
    addEventListener('load', measure)
  })
})()
