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
      const run = { item, text: node.nodeValue.trim(), lines, size: parseFloat(item.style.fontSize) };
      runs.push(run);
      for (let up = item; up; up = up.up) up.texts += 1;
    }
  }
  for (const run of runs) {
    run.colour = colourOf(run.item.style.webkitTextFillColor);
    run.alpha = run.colour[3] * run.item.opacity;
    run.ornament = isOrnament(run);
  }
  return runs;
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
