// Two texts printed over each other. Only where both really show: a text under an opaque panel, a faded slide of a
// stack, a watermark, or the same words twice (a shadow, a glitch) is no accident.

const OVERLAPS_MAX = 40;

function inkLines(runs) {
  const lines = [];
  for (const run of runs) {
    if (run.ornament || run.item.svg || run.item.turned || run.item.shaped) continue;
    for (const line of run.lines) {
      const ink = visiblePart(inkOf(run, line), run.item.inner);
      if (!isEmpty(ink)) lines.push({ run, ink });
    }
  }
  return lines.sort((a, b) => a.ink.y0 - b.ink.y0);
}

function collide(a, b) {
  const both = meet(a.ink, b.ink);
  const small = Math.min(a.run.size, b.run.size);
  const lower = Math.min(a.ink.y1 - a.ink.y0, b.ink.y1 - b.ink.y0);
  if (both.x1 - both.x0 <= Math.max(3, small * 0.3)) return null;
  if (both.y1 - both.y0 <= Math.max(2, lower * 0.25)) return null;
  return both;
}

// Outside the viewport nothing can be hit: there, a text on its own opaque lifted panel counts as covering.
function isCovering(run) {
  for (let at = run.item; at.el && at.el !== document.body; at = at.up) {
    if (isOpaque(at.el) && (at.lifted || at.position !== "static")) return true;
  }
  return false;
}

function bothShow(a, b, both) {
  const x = (both.x0 + both.x1) / 2 - scrollX;
  const y = (both.y0 + both.y1) / 2 - scrollY;
  if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return !isCovering(a.run) && !isCovering(b.run);
  const pile = document.elementsFromPoint(x, y);
  const depth = (run) => pile.findIndex((el) => el === run.item.el);
  const [i, j] = [depth(a.run), depth(b.run)];
  if (i < 0 || j < 0) return false;
  const [upper, lower] = i < j ? [i, j] : [j, i];
  if (pile.slice(0, upper).some((el) => !pile[upper].contains(el) && isOpaque(el))) return false;
  return !pile.slice(upper, lower).some((el) => !el.contains(pile[lower]) && isOpaque(el));
}

// Whose fault is it? Text that runs out of its own box, else the one that was put there, else the later one.
function spills(run) {
  const last = inkOf(run, run.lines[run.lines.length - 1]);
  for (let at = run.item, n = 0; at.el && n < 4; at = at.up, n += 1) {
    if (at.style.display !== "inline" && at.style.display !== "contents" && at.box.y1 < last.y1 - EDGE_PX) return true;
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
  const lines = inkLines(runs);
  const found = new Map();
  for (let i = 0; i < lines.length && found.size < OVERLAPS_MAX; i += 1) {
    for (let j = i + 1; j < lines.length && lines[j].ink.y0 < lines[i].ink.y1; j += 1) {
      const [a, b] = lines[i].run.item.order <= lines[j].run.item.order ? [lines[i], lines[j]] : [lines[j], lines[i]];
      if (a.run.item === b.run.item || a.run.text === b.run.text) continue;
      const key = `${a.run.item.order}/${b.run.item.order}`;
      if (found.has(key)) continue;
      const both = collide(a, b);
      if (both && bothShow(a, b, both)) found.set(key, [a.run, b.run, both]);
    }
  }
  return byCulprit([...found.values()]).map(([culprit, others, both]) => ({
    order: culprit.item.order,
    ...where(culprit.item.el, both, culprit.text),
    others: others.map((run) => where(run.item.el, run.lines[0], run.text)),
  }));
}
