// What runs over the edge of a fixed canvas. A page that decides its own height can only run over its sides.
// Each side names its culprits: the outermost element that crosses the edge, the page's own before a component's.

const EDGE_PX = 2; // rounding, hairlines and shadows are no overflow
const CULPRITS_MAX = 6;

function beyond(box, canvas) {
  return {
    right: box.x1 - canvas.x1,
    bottom: canvas.auto ? 0 : box.y1 - canvas.y1,
    left: canvas.x0 - box.x0,
    top: canvas.y0 - box.y0,
  };
}

function sidesOver(box, canvas) {
  return Object.entries(beyond(box, canvas)).filter(([, px]) => px > EDGE_PX);
}

function isOutside(box, canvas) {
  return box.x0 >= canvas.x1 || box.x1 <= canvas.x0 || box.y1 <= canvas.y0 || (!canvas.auto && box.y0 >= canvas.y1);
}

// A lifted thing without words (a blob, a glow, a photo without a name) bleeds over the edge on purpose.
function isDecoration(item, of) {
  if (item.quiet || item.shaped || item.opacity < 0.3) return true;
  if (item.turned && !item.texts) return true;
  const lifted = item.lifted && of.get(item.lifted);
  if (!lifted || lifted.texts) return false;
  return !lifted.el.matches("img[alt]:not([alt=''])") && !lifted.el.querySelector("img[alt]:not([alt='']), input, button");
}

function groundOfPage() {
  for (const el of [document.documentElement, document.body]) {
    const { backgroundColor, backgroundImage } = getComputedStyle(el);
    if (backgroundImage !== "none") return "";
    if (colourOf(backgroundColor)[3] > 0) return String(colourOf(backgroundColor));
  }
  return "255,255,255,1";
}

// A box in the colour of the page's own ground may end where it likes.
function standsOut({ style }, ground) {
  if (style.backgroundImage !== "none") return true;
  const colour = colourOf(style.backgroundColor);
  return colour[3] > NOT_QUITE_NOTHING && String(colour) !== ground;
}

// Menus, drawers and skip links wait outside until they are called.
function isParked(item, box, canvas) {
  if (!isOutside(box, canvas)) return false;
  if (!item.lifted && !item.moving) return false;
  return item.moving || item.position === "fixed" || box.x1 <= canvas.x0 || box.y1 <= canvas.y0;
}

// `limit` is a root that clips at the canvas: it never crosses, and what it holds does.
function culpritOf(item, side, canvas, limit) {
  let outermost = item;
  let own = null;
  for (let at = item; at.el && at.el !== document.body && at !== limit; at = at.up) {
    if (!(beyond(at.box, canvas)[side] > EDGE_PX) && at.style.display !== "contents") break;
    outermost = at;
    if (at.el.getAttribute("data-pg-loc")?.startsWith("pages/")) own = at;
  }
  return own ?? outermost;
}

function probeOverflow({ items, of, runs, canvas }) {
  const sides = {};
  const ground = groundOfPage();
  const blamed = new Map();
  const blame = (item, side, px, text, limit) => {
    const found = (sides[side] ??= new Map());
    const key = `${item.up.order}/${side}`; // brothers have one culprit, unless each is its own
    let culprit = blamed.get(key);
    if (!culprit) {
      culprit = culpritOf(item, side, canvas, limit);
      if (culprit !== item) blamed.set(key, culprit);
    }
    const known = found.get(culprit);
    if (known) {
      known.px = Math.max(known.px, px);
      known.first ??= text;
    } else if (found.size < CULPRITS_MAX) {
      found.set(culprit, { px, first: text, order: culprit.order });
    }
  };
  for (const item of items) {
    if (!shows(item) || item.svg || item.el === document.body || isEmpty(item.box)) continue;
    if (!sidesOver(item.box, canvas).length) continue;
    if (!REPLACED.has(item.el.tagName) && !paintsBorder(item.style) && !standsOut(item, ground)) continue;
    const seen = visiblePart(item.box, item.clip);
    if (isEmpty(seen) || isDecoration(item, of) || isParked(item, seen, canvas)) continue;
    for (const [side, px] of sidesOver(seen, canvas)) blame(item, side, px, null, null);
  }
  for (const run of runs) {
    if (run.ornament || run.item.svg || run.item.shaped) continue;
    for (const line of run.lines) {
      if (!sidesOver(line, canvas).length) continue;
      const ink = inkOf(run, line);
      const edge = canvasClip(run.item.clip ?? run.item.inner, canvas);
      const seen = edge ? ink : visiblePart(ink, run.item.inner);
      if (isEmpty(seen) || isParked(run.item, seen, canvas)) continue;
      if (run.item.turned && !isOutside(seen, canvas)) continue;
      for (const [side, px] of sidesOver(seen, canvas)) blame(run.item, side, px, startOf(run.text), edge?.item);
    }
  }
  return Object.entries(sides).flatMap(([side, found]) =>
    [...found].map(([item, { px, first, order }]) => ({
      side, px: Math.round(px * 10) / 10, first, order, position: item.position, ...where(item.el, item.box),
    })),
  );
}

// The clip that is the canvas itself (a root with `overflow-hidden`), when nothing smaller cuts before it.
function canvasClip(clip, canvas) {
  for (let c = clip; c; c = c.up) {
    const near = (a, b) => Math.abs(a - b) <= EDGE_PX;
    const whole =
      near(c.box.x0, canvas.x0) && near(c.box.x1, canvas.x1) && near(c.box.y0, canvas.y0) &&
      (canvas.auto || near(c.box.y1, canvas.y1));
    if (whole && c.x !== "scroll" && c.y !== "scroll") return c;
    return null;
  }
  return null;
}
