// One reading of the page that every probe shares: which elements there are, which of them show, and what cuts them.
// All boxes are in CSS pixels from the document's top left corner: {x0, y0, x1, y1}.

const ELEMENTS_MAX = 6000;
const NEVER_SHOWN = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "LINK", "META", "TITLE", "DATALIST"]);
const REPLACED = new Set([
  "IMG", "svg", "CANVAS", "VIDEO", "IFRAME", "INPUT", "BUTTON", "TEXTAREA", "SELECT", "OBJECT", "EMBED", "METER", "PROGRESS",
]);
const NOT_QUITE_NOTHING = 0.06; // opacity below which nobody sees a thing

function pageBox(rect) {
  return { x0: rect.left + scrollX, y0: rect.top + scrollY, x1: rect.right + scrollX, y1: rect.bottom + scrollY };
}

function isEmpty(box) {
  return box.x1 - box.x0 < 0.5 || box.y1 - box.y0 < 0.5;
}

function meet(a, b) {
  return { x0: Math.max(a.x0, b.x0), y0: Math.max(a.y0, b.y0), x1: Math.min(a.x1, b.x1), y1: Math.min(a.y1, b.y1) };
}

// What is left of a box inside everything that clips it.
function visiblePart(box, clip) {
  let left = box;
  for (let c = clip; c; c = c.up) {
    left = {
      x0: c.x ? Math.max(left.x0, c.box.x0) : left.x0,
      x1: c.x ? Math.min(left.x1, c.box.x1) : left.x1,
      y0: c.y ? Math.max(left.y0, c.box.y0) : left.y0,
      y1: c.y ? Math.min(left.y1, c.box.y1) : left.y1,
    };
  }
  return left;
}

// "hidden": what runs over is lost. "scroll": the reader can get at it. "": it shows.
function clipKind(overflow) {
  if (overflow === "hidden" || overflow === "clip") return "hidden";
  return overflow === "visible" ? "" : "scroll";
}

function paddingBox(el, box) {
  const scaleX = el.offsetWidth ? (box.x1 - box.x0) / el.offsetWidth : 1;
  const scaleY = el.offsetHeight ? (box.y1 - box.y0) / el.offsetHeight : 1;
  const x0 = box.x0 + el.clientLeft * scaleX;
  const y0 = box.y0 + el.clientTop * scaleY;
  return { x0, y0, x1: x0 + el.clientWidth * scaleX, y1: y0 + el.clientHeight * scaleY };
}

function isTurned(style) {
  if (style.rotate !== "none") return true;
  const m = style.transform;
  if (m === "none") return false;
  if (m.startsWith("matrix3d")) return true;
  const [, b, c] = m.slice(7, -1).split(",").map(Number);
  return Math.abs(b) > 0.001 || Math.abs(c) > 0.001;
}

function holdsFixed(style) {
  return (
    style.transform !== "none" || style.translate !== "none" || style.scale !== "none" || style.rotate !== "none" ||
    style.filter !== "none" || style.backdropFilter !== "none" || style.perspective !== "none" ||
    style.contain.includes("paint") || style.contain === "strict" || style.contain === "content"
  );
}

function readElement(el, up) {
  const style = getComputedStyle(el);
  if (style.display === "none") return null;
  const boxless = style.display === "contents";
  const svg = up.svg || up.el?.tagName === "svg";
  const box = boxless ? up.box : pageBox(el.getBoundingClientRect());
  const position = svg ? "static" : style.position;
  const holder = !svg && holdsFixed(style);
  const clip = position === "fixed" ? up.fixedClip : position === "absolute" ? up.absoluteClip : up.inner;
  const item = {
    el, style, box, up, svg, clip, position,
    inner: clip,
    opacity: up.opacity * Number(style.opacity),
    quiet: up.quiet || el.getAttribute("aria-hidden") === "true" || el.hasAttribute("inert"),
    turned: up.turned || (!svg && isTurned(style)),
    // Shaped by a mask or a clip path: rectangles say little about what shows.
    shaped: up.shaped || style.clipPath !== "none" || style.maskImage !== "none" || style.clip !== "auto",
    moving: up.moving || style.animationName !== "none" || style.transform !== "none" || style.translate !== "none",
    // Painted in a way that a text colour does not tell: blended or filtered.
    tinted: up.tinted || style.mixBlendMode !== "normal" || style.filter !== "none",
    // The ground that shows through letters without a colour of their own, cut out of it: a gradient, a picture.
    cutOut: style.backgroundClip.includes("text") && style.backgroundImage !== "none" ? style.backgroundImage : up.cutOut,
    lifted: position === "absolute" || position === "fixed" || position === "sticky" ? el : up.lifted,
    seen: style.visibility === "visible",
    texts: 0,
  };
  const inline = style.display === "inline" && !REPLACED.has(el.tagName);
  if (!svg && !boxless && !inline && el !== document.body) {
    const x = clipKind(style.overflowX);
    const y = clipKind(style.overflowY);
    if (x || y) item.inner = { item, x, y, box: paddingBox(el, box), up: clip };
  }
  item.absoluteClip = holder || position !== "static" ? item.inner : up.absoluteClip;
  item.fixedClip = holder ? item.inner : up.fixedClip;
  return item;
}

function walkPage() {
  const items = [];
  const of = new Map();
  const top = {
    el: null, up: null, box: { x0: 0, y0: 0, x1: innerWidth, y1: innerHeight }, svg: false, inner: null,
    absoluteClip: null, fixedClip: null, opacity: 1, quiet: false, turned: false, shaped: false, moving: false,
    tinted: false, cutOut: "", lifted: null,
  };
  const todo = document.body ? [[document.body, top]] : [];
  while (todo.length && items.length < ELEMENTS_MAX) {
    const [el, up] = todo.pop();
    if (NEVER_SHOWN.has(el.tagName)) continue;
    const item = readElement(el, up);
    if (!item) continue;
    item.order = items.length;
    items.push(item);
    of.set(el, item);
    if (item.style.contentVisibility === "hidden") continue;
    const folded = el.tagName === "DETAILS" && !el.open;
    for (let child = el.lastElementChild; child; child = child.previousElementSibling) {
      if (!folded || child.tagName === "SUMMARY") todo.push([child, item]);
    }
  }
  return { items, of };
}

function shows(item) {
  return item.seen && item.opacity > NOT_QUITE_NOTHING;
}
