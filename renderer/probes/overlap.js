// Two texts printed over each other. Only where both really show: a text under an opaque panel, a faded slide of a
// stack, a watermark, or the same words twice (a shadow, a glitch) is no accident.

const OVERLAPS_MAX = 40;
const CROWDED_SHARE = 0.4;

function shownLines(runs) {
  const lines = [];
  for (const run of runs) {
    if (run.ornament || run.unruly || run.item.turned || run.item.shaped) continue;
    for (const line of run.lines) {
      const seen = visiblePart(line, run.item.inner);
      if (!isEmpty(seen)) lines.push({ run, line, seen });
    }
  }
  return lines.sort((a, b) => a.seen.y0 - b.seen.y0);
}

function collide(a, b) {
  const touch = meet(a.seen, b.seen);
  if (touch.x1 - touch.x0 <= Math.max(3, Math.min(a.run.size, b.run.size) * 0.3)) return null;
  const [inkA, inkB] = [meet(a.seen, inkOf(a.run, a.line)), meet(b.seen, inkOf(b.run, b.line))];
  const both = meet(inkA, inkB);
  const lower = Math.min(inkA.y1 - inkA.y0, inkB.y1 - inkB.y0);
  return both.y1 - both.y0 > Math.max(2, lower * 0.25) ? both : null;
}

// A reading beside its character (ruby) belongs there, however close it stands.
function annotates(a, b) {
  const ruby = a.item.el.closest("ruby");
  return Boolean(ruby) && ruby === b.item.el.closest("ruby");
}

// Lines of one text, too close for their letters: a line height of a half, say. Tight display type is closer than its
// boxes, but its letters do not meet.
function meetsItself(run) {
  if (run.lines.length < 2 || run.item.style.writingMode !== "horizontal-tb" || run.item.turned) return null;
  for (let i = 1; i < run.lines.length; i += 1) {
    const [upper, lower] = [inkOf(run, run.lines[i - 1]), inkOf(run, run.lines[i])];
    const both = meet(upper, lower);
    const step = lower.y0 - upper.y0;
    if (step < 1 || both.x1 - both.x0 <= run.size) continue;
    if (both.y1 - both.y0 > (lower.y1 - lower.y0) * CROWDED_SHARE) return both;
  }
  return null;
}

// Outside the viewport nothing can be hit: there, a text on its own opaque panel counts as covering, if that is lifted or
// an item of a grid or row, which is painted as a whole.
function isCovering(run, both) {
  for (let at = run.item; at.el && at.el !== document.body; at = at.up) {
    if (!isOpaque(at.el)) continue;
    if (at.lifted || at.position !== "static") return true;
    if (/grid|flex/.test(at.up.style?.display ?? "") && isInside(both, at.box)) return true;
  }
  return false;
}

function isInside(a, b) {
  return a.x0 >= b.x0 && a.x1 <= b.x1 && a.y0 >= b.y0 && a.y1 <= b.y1;
}

// How far down in the pile of elements at a point a text is. Text outside its own box is not hit: it lies on whatever
// ancestor is.
function depthOf(item, pile, both) {
  for (let at = item; at.el; at = at.up) {
    const depth = pile.indexOf(at.el);
    if (depth >= 0) return depth;
    if (!isEmpty(meet(at.box, both)) && at.style.display !== "inline" && at.style.display !== "contents") return -1;
  }
  return -1;
}

function bothShow(a, b, both) {
  const x = (both.x0 + both.x1) / 2 - scrollX;
  const y = (both.y0 + both.y1) / 2 - scrollY;
  if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return !isCovering(a.run, both) && !isCovering(b.run, both);
  const pile = document.elementsFromPoint(x, y);
  const [i, j] = [depthOf(a.run.item, pile, both), depthOf(b.run.item, pile, both)];
  if (i < 0 || j < 0) return false;
  const [upper, lower] = i < j ? [i, j] : [j, i];
  if (pile.slice(0, upper).some((el) => !pile[upper].contains(el) && hides(el))) return false;
  return !pile.slice(upper, lower).some((el) => !el.contains(pile[lower]) && hides(el));
}

// Whose fault is it? Text that runs out of its own box, else the one that was put there, else the later one.
function spills(run) {
  const last = inkOf(run, run.lines[run.lines.length - 1]);
  const right = Math.max(...run.lines.map((line) => line.x1));
  for (let at = run.item, n = 0; at.el && n < 4; at = at.up, n += 1) {
    if (at.style.display === "inline" || at.style.display === "contents") continue;
    if (at.box.y1 < last.y1 - EDGE_PX || at.box.x1 < right - EDGE_PX) return true;
  }
  return false;
}

function byCulprit(pairs) {
  const blamed = new Map();
  for (const [a, b, both] of pairs) {
    const earlier = spills(a) !== spills(b) ? spills(a) : Boolean(a.item.lifted) && !b.item.lifted;
    const [culprit, other] = earlier ? [a, b] : [b, a];
    const known = blamed.get(culprit);
    if (known) known[1].push(other);
    else blamed.set(culprit, [culprit, [other], both]);
  }
  return [...blamed.values()];
}

function probeOverlap({ runs }) {
  const lines = shownLines(runs);
  const found = new Map();
  for (let i = 0; i < lines.length && found.size < OVERLAPS_MAX; i += 1) {
    for (let j = i + 1; j < lines.length && lines[j].seen.y0 < lines[i].seen.y1; j += 1) {
      const [a, b] = lines[i].run.item.order <= lines[j].run.item.order ? [lines[i], lines[j]] : [lines[j], lines[i]];
      if (a.run.item === b.run.item || a.run.text === b.run.text || annotates(a.run, b.run)) continue;
      const key = `${a.run.item.order}/${b.run.item.order}`;
      if (found.has(key)) continue;
      const both = collide(a, b);
      if (both && bothShow(a, b, both)) found.set(key, [a.run, b.run, both]);
    }
  }
  const crowded = runs
    .filter((run) => !run.ornament && !run.item.svg && !run.item.shaped)
    .map((run) => [run, meetsItself(run)])
    .filter(([, both]) => both)
    .map(([run, both]) => ({
      order: run.item.order, ...where(run.item.el, both, run.text), paint: paintOf(run), others: [], itself: true,
    }));
  const pairs = byCulprit([...found.values()]).map(([culprit, others, both]) => ({
    order: culprit.item.order,
    ...where(culprit.item.el, both, culprit.text),
    paint: paintOf(culprit),
    others: others.map((run) => ({ paint: paintOf(run), ...where(run.item.el, run.lines[0], run.text) })),
  }));
  return [...pairs, ...crowded.slice(0, OVERLAPS_MAX)];
}
