// Every piece of text that shows, line by line, and how much of each line is ink.

const inkPen = document.createElement("canvas").getContext("2d");
const HUGE_PX = 96;
let inkFont = "";

function readTexts(items) {
  const runs = [];
  for (const item of items) {
    if (!shows(item) || !item.el.checkVisibility({ contentVisibilityAuto: true })) continue;
    for (let node = item.el.firstChild; node; node = node.nextSibling) {
      if (node.nodeType !== Node.TEXT_NODE || !node.nodeValue.trim()) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const lines = [...range.getClientRects()].map(pageBox).filter((box) => !isEmpty(box));
      if (!lines.length) continue;
      const scale = item.svg ? drawnScale(item) : 1;
      const run = { item, text: node.nodeValue.trim(), lines, size: parseFloat(item.style.fontSize) * (scale || 1) };
      run.unruly = scale === 0;
      runs.push(run);
      for (let up = item; up; up = up.up) up.texts += 1;
    }
  }
  for (const run of runs) {
    run.colour = fillOf(run);
    run.alpha = run.colour[3] * run.item.opacity;
    run.fromGround = Boolean(run.item.cutOut) && run.colour[3] < 0.3;
    if (run.fromGround) run.alpha = groundAlpha(run.item.cutOut) * run.item.opacity;
    run.ornament = isOrnament(run);
  }
  return runs;
}

const UNDRAWN = "defs, clipPath, mask, pattern, symbol, marker, textPath, foreignObject";
const MOVED_BY_SVG = "animate, animateTransform, animateMotion, set";

const movedBySvg = new Map();

function isMovedBySvg(svg) {
  if (!movedBySvg.has(svg)) movedBySvg.set(svg, Boolean(svg.querySelector(MOVED_BY_SVG)));
  return movedBySvg.get(svg);
}

// How large a unit of a drawn text (SVG) is on the page; 0 for one whose boxes say little: turned, moving, on a path.
function drawnScale({ el, turned }) {
  if (turned || !(el instanceof SVGTextContentElement) || el.closest(UNDRAWN)) return 0;
  if (isMovedBySvg(el.closest("svg"))) return 0;
  const m = el.getScreenCTM();
  if (!m || Math.abs(m.b) > 0.001 || Math.abs(m.c) > 0.001 || m.a <= 0 || m.d <= 0) return 0;
  return el.hasAttribute("rotate") ? 0 : m.d;
}

const PLAIN_FILL = /^(rgb|hsl|ok|lab|lch|color)/;

function fillOf({ item }) {
  if (!item.svg) return colourOf(item.style.webkitTextFillColor);
  if (!PLAIN_FILL.test(item.style.fill)) return [0, 0, 0, 1]; // a gradient or pattern
  const [r, g, b, alpha] = colourOf(item.style.fill);
  return [r, g, b, alpha * Number(item.style.fillOpacity)];
}

const COLOUR_IN_GRADIENT = /(?:rgba?|hsla?|oklch|oklab|lch|lab|color)\([^()]*\)/g;

// The most that is painted anywhere of a gradient; a picture is taken as opaque.
function groundAlpha(image) {
  if (image.includes("url(")) return 1;
  return Math.max(0, ...(image.match(COLOUR_IN_GRADIENT) ?? ["rgb(0, 0, 0)"]).map((css) => colourOf(css)[3]));
}

// Text that is there to look at, not to read: watermarks, big quote marks, numbers behind a title.
function isOrnament({ item, alpha, size, text }) {
  if (item.quiet) return true;
  if (alpha < 0.3 && !isUnfilled(item)) return true;
  if (size >= HUGE_PX && text.length <= 3) return true;
  const still = item.style.pointerEvents === "none" || item.style.userSelect === "none";
  return Boolean(item.lifted) && still && (size >= 48 || text.length <= 3);
}

// Letters cut out of a gradient that is not there.
function isUnfilled({ style }) {
  return style.backgroundClip.includes("text") && style.backgroundImage === "none";
}

function inkHeights(run) {
  if (run.ink) return run.ink;
  const style = run.item.style;
  const font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  if (font !== inkFont) inkPen.font = inkFont = font;
  const upper = style.textTransform === "uppercase";
  const m = inkPen.measureText((upper ? run.text.toUpperCase() : run.text).slice(0, 400));
  const height = m.fontBoundingBoxAscent + m.fontBoundingBoxDescent || 1;
  run.ink = {
    above: (m.fontBoundingBoxAscent - m.actualBoundingBoxAscent) / height,
    below: (m.fontBoundingBoxDescent - m.actualBoundingBoxDescent) / height,
  };
  return run.ink;
}

// The part of a line's box that letters really fill: the box of a line is taller than its ink.
function inkOf(run, line) {
  const height = line.y1 - line.y0;
  if (run.item.style.writingMode !== "horizontal-tb" || run.item.turned) return line;
  const { above, below } = inkHeights(run);
  return { x0: line.x0, x1: line.x1, y0: line.y0 + above * height, y1: line.y1 - below * height };
}
