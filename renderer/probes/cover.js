// Text that something else was painted over: wholly, by a thing without any content of its own (a bar, a shade that
// stayed), or in part, where boxes of the ordinary flow, or labels of one kind, have run into each other. A dialog over a page, a card of a
// stack, a bar that sticks while the text scrolls below it cover on purpose.

const COVER_SAMPLES_MAX = 24;
const COVERS_MAX = 40;

// The opaque element that hides a text at a point of the viewport, or null.
function coverAt(el, x, y) {
  for (const above of document.elementsFromPoint(x, y)) {
    if (above === el || above.contains(el) || el.contains(above)) return null;
    if (isOpaque(above)) return above;
  }
  return null;
}

function isInView(x, y) {
  return x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
}

// How much of a run is covered, and by what; null where nothing can be hit.
function coverOf(run) {
  let [points, covered, cover] = [0, 0, null];
  for (const line of shownSlices(run)) {
    const count = Math.min(COVER_SAMPLES_MAX, Math.max(5, Math.round((line.x1 - line.x0) / (run.size * 0.5))));
    const y = (line.y0 + line.y1) / 2 - scrollY;
    for (let i = 0; i < count; i += 1) {
      const x = line.x0 + ((i + 0.5) / count) * (line.x1 - line.x0) - scrollX;
      if (!isInView(x, y)) continue;
      points += 1;
      const above = coverAt(run.item.el, x, y);
      if (above) [covered, cover] = [covered + 1, cover ?? above];
    }
  }
  return points && covered >= 2 ? { whole: covered === points, cover } : null;
}

// Nothing in it that somebody would want to see instead, and nothing that will take it away.
function isEmptyCover(item) {
  const { el, style } = item;
  if (item.texts || item.svg || REPLACED.has(el.tagName) || style.backgroundImage.includes("url(")) return false;
  if (el.querySelector("img, svg, canvas, video, iframe, input, button")) return false;
  return style.transitionDuration === "0s" || style.transitionProperty === "none";
}

function isInFlow(item) {
  return !item.lifted && !item.moving;
}

// Boxes of the ordinary flow that lie on each other wholly: a negative margin, a height that is too small. Not those that
// share a cell of a grid, nor cards of one kind: such are piled up on purpose.
function isBuried(run, above) {
  if (!isInFlow(run.item) || !isInFlow(above) || above.svg || above.el.contains(run.item.el)) return false;
  let [a, b] = [run.item, above];
  while (a.up?.el && !a.up.el.contains(above.el)) a = a.up;
  while (b.up?.el && !b.up.el.contains(run.item.el)) b = b.up;
  if (!a.up || a.up !== b.up || (a.el.tagName === b.el.tagName && a.el.className === b.el.className)) return false;
  return !a.up.style.display.includes("grid") && above.style.transitionDuration === "0s";
}

// Two labels of one kind (on a map, along an axis) that were put where there is room for one. Cards of a stack are
// larger than a label.
function areLabels(run, above) {
  if (above.texts > 1 || above.box.y1 - above.box.y0 > run.size * 3.5) return false;
  for (let at = run.item; at.el && at.el !== document.body; at = at.up) {
    if (at.el.className === above.el.className && at.el.tagName === above.el.tagName) return true;
    if (isOpaque(at.el)) return false;
  }
  return false;
}

function isAccident(run, above) {
  return (isInFlow(run.item) && isInFlow(above)) || areLabels(run, above);
}

// A picture under which every text of the page lies: nobody stacks a whole page on purpose. Null when there is none.
function pictureOverAll(runs, of) {
  const read = runs.filter((run) => !run.ornament && !run.unruly && READABLE.test(run.text));
  let over = null;
  for (const run of read) {
    const answer = coverOf(run);
    const above = answer?.whole && of.get(answer.cover);
    if (!above || (over && above !== over)) return null;
    over = above;
  }
  return read.length >= 2 && over?.el.tagName === "IMG" && !over.moving ? over : null;
}

function probeCover({ runs, of }) {
  const found = [];
  const buriedBy = pictureOverAll(runs, of);
  for (const run of runs) {
    const { item } = run;
    if (found.length >= COVERS_MAX) break;
    if (run.ornament || item.svg || item.turned || item.shaped || !READABLE.test(run.text)) continue;
    if (item.style.writingMode !== "horizontal-tb") continue;
    const answer = coverOf(run);
    const above = answer && of.get(answer.cover);
    if (!above) continue;
    const buried = answer.whole && (above === buriedBy || isBuried(run, above));
    if (answer.whole ? !buried && !isEmptyCover(above) : !isAccident(run, above)) continue;
    found.push({
      whole: answer.whole, buried, order: item.order, paint: paintOf(run), cover: where(above.el), ...where(item.el, run.lines[0], run.text),
    });
  }
  return found;
}
