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
    if (hides(above)) return true;
  }
  return false;
}

// The middle of each line that shows: the edges of a line's box may lie on another ground.
function shownSlices(run) {
  const lines = [];
  for (const line of run.lines.slice(0, LINES_MAX)) {
    const slice = (line.y1 - line.y0) * 0.15;
    const seen = visiblePart({ x0: line.x0, x1: line.x1, y0: line.y0 + slice, y1: line.y1 - slice }, run.item.inner);
    if (!isEmpty(seen)) lines.push(seen);
  }
  return lines;
}

// How a text is painted, for looking it up in the picture.
function paintOf(run, slices = shownSlices(run)) {
  return { lines: slices.map(roundBox), colour: run.colour.slice(0, 3), alpha: run.alpha, size: run.size };
}

function probeContrast({ runs }) {
  const out = [];
  for (const run of runs) {
    const { item } = run;
    if (run.ornament || item.tinted || run.unruly || item.shaped || run.size < 6 || !READABLE.test(run.text)) continue;
    const { style } = item;
    if (style.textShadow !== "none" || parseFloat(style.webkitTextStrokeWidth) > 0) continue;
    if (item.svg && (style.stroke !== "none" || !PLAIN_FILL.test(style.fill))) continue;
    const slices = shownSlices(run);
    if (!slices.length || slices.some((slice) => isCovered(run, slice))) continue;
    out.push({
      ...paintOf(run, slices), from_ground: run.fromGround, faded: item.opacity < 0.6, turned: item.turned, order: item.order, ...where(item.el, run.lines[0], run.text),
    });
  }
  return out;
}
