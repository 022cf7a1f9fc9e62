// Any CSS colour (oklch, color(display-p3 …), color-mix) as [red, green, blue, alpha]: the browser itself converts it.

const colourCanvas = document.createElement("canvas");
colourCanvas.width = colourCanvas.height = 1;
const colourPen = colourCanvas.getContext("2d", { willReadFrequently: true });
const colourCache = new Map();

function plainColour(css) {
  const m = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(css);
  return m && [Number(m[1]), Number(m[2]), Number(m[3]), m[4] === undefined ? 1 : Number(m[4])];
}

function mixedColour(css) {
  const alpha = Number(/\/ ([\d.]+)\)$/.exec(css)?.[1] ?? 1);
  if (alpha === 0) return [0, 0, 0, 0];
  // Painted opaque: a translucent pixel would come back rounded.
  colourPen.clearRect(0, 0, 1, 1);
  colourPen.fillStyle = "#000";
  colourPen.fillStyle = css.replace(/ \/ [\d.]+\)$/, ")");
  colourPen.fillRect(0, 0, 1, 1);
  const [r, g, b] = colourPen.getImageData(0, 0, 1, 1).data;
  return [r, g, b, alpha];
}

function colourOf(css) {
  let colour = colourCache.get(css);
  if (!colour) {
    colour = plainColour(css) ?? mixedColour(css);
    colourCache.set(css, colour);
  }
  return colour;
}

function paintsBorder(style) {
  return ["Top", "Right", "Bottom", "Left"].some(
    (side) =>
      parseFloat(style[`border${side}Width`]) > 0 &&
      style[`border${side}Style`] !== "none" &&
      colourOf(style[`border${side}Color`])[3] > NOT_QUITE_NOTHING,
  );
}

// The same for a point where the element was hit: shapes of a drawing hide what they are painted over.
function hides(el) {
  if (!(el instanceof SVGGeometryElement)) return isOpaque(el);
  const { fill, fillOpacity, opacity } = getComputedStyle(el);
  if (fill === "none" || Number(fillOpacity) * Number(opacity) < 0.85) return false;
  return fill.startsWith("url(") || colourOf(fill)[3] >= 0.85;
}

// Does this element hide what lies beneath it?
function isOpaque(el) {
  if (["IMG", "CANVAS", "VIDEO", "IFRAME"].includes(el.tagName)) return true;
  const style = getComputedStyle(el);
  if (Number(style.opacity) < 0.85) return false;
  return style.backgroundImage.includes("url(") || colourOf(style.backgroundColor)[3] >= 0.85;
}
