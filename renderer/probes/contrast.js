// What the judge needs to look at each text in the picture: where its lines are and in which colour it is painted.
// Only text that is meant to be read and that nothing covers. The ground is not guessed from ancestors: pixels tell.

const LINES_MAX = 3;
const READABLE = /[\p{L}\p{N}]/u;

function isCovered(run, line) {
  const x = (line.x0 + line.x1) / 2 - scrollX;
  const y = (line.y0 + line.y1) / 2 - scrollY;
  const el = run.item.el;
  const hit = document.elementFromPoint(x, y);
  if (!hit || hit === el || el.contains(hit) || hit.contains(el)) return false;
  for (const above of document.elementsFromPoint(x, y)) {
    if (above === el || above.contains(el)) return false;
    if (isOpaque(above)) return true;
  }
  return false;
}

function isPaintedOtherwise({ item }) {
  const { style } = item;
  if (item.blended || item.svg || item.shaped || parseFloat(style.webkitTextStrokeWidth) > 0) return true;
  for (let at = item; at.el; at = at.up) {
    const { backgroundClip, filter, backgroundImage } = at.style;
    if (filter !== "none") return true;
    if (backgroundClip.includes("text") && backgroundImage !== "none") return true;
  }
  return false;
}

function probeContrast({ runs }) {
  const out = [];
  for (const run of runs) {
    if (run.item.quiet || !READABLE.test(run.text) || run.size < 6 || isPaintedOtherwise(run)) continue;
    const lines = [];
    for (const line of run.lines.slice(0, LINES_MAX)) {
      const seen = visiblePart(inkOf(run, line), run.item.inner);
      if (!isEmpty(seen) && !isCovered(run, seen)) lines.push(roundBox(seen));
    }
    if (!lines.length) continue;
    out.push({
      lines, colour: run.colour.slice(0, 3), alpha: run.alpha, faded: run.item.opacity < 0.6, size: run.size,
      chars: run.text.length, ornament: run.ornament, shadow: run.item.style.textShadow !== "none",
      order: run.item.order, ...where(run.item.el, run.lines[0], run.text),
    });
  }
  return out;
}
