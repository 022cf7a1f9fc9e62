// Pictures, fonts and media that did not arrive, and which element asked for which address.

const ASKING = "img, source, video, audio, iframe, embed, object, input[type=image], image, use, link[href], script[src]";

function addressOf(raw) {
  if (!raw) return "";
  try {
    const url = new URL(raw, document.baseURI);
    return (url.origin === location.origin ? url.pathname + url.search : url.href).slice(0, 500);
  } catch {
    return String(raw).slice(0, 500);
  }
}

function askedBy(el) {
  const raw = el.currentSrc || el.src || el.data || el.getAttribute("href") || el.getAttribute("xlink:href") || "";
  return addressOf(typeof raw === "string" ? raw : raw.baseVal);
}

function brokenImage(el, item) {
  if (!item || !item.seen || item.quiet && !el.src) return null;
  const box = item.box;
  if (el.complete && el.naturalWidth > 0) return null;
  if (!el.complete) return el.loading === "lazy" ? null : "hanging";
  if (el.getAttribute("src") || el.srcset) return "broken";
  return box.x1 - box.x0 >= 8 && box.y1 - box.y0 >= 8 ? "empty" : null;
}

function probeMedia({ items, of }) {
  const images = [];
  const asked = [];
  for (const el of document.querySelectorAll(ASKING)) {
    const address = askedBy(el);
    if (address && !/^(data|blob):/.test(address)) asked.push({ address, ...where(el) });
    if (el.tagName === "IMG") {
      const state = brokenImage(el, of.get(el));
      if (state) images.push({ state, address, ...where(el, null, el.alt) });
    }
    if ((el.tagName === "VIDEO" || el.tagName === "AUDIO") && el.error) {
      images.push({ state: "media", address, ...where(el) });
    }
  }
  for (const { el, style } of items) {
    if (!style.backgroundImage.includes("url(")) continue;
    for (const [, raw] of style.backgroundImage.matchAll(/url\("([^"]+)"\)/g)) {
      if (!raw.startsWith("data:")) asked.push({ address: addressOf(raw), ...where(el) });
    }
  }
  const fonts = [...document.fonts]
    .filter((face) => face.status === "error" || face.status === "loading")
    .map((face) => ({ family: face.family.replace(/^["']|["']$/g, "").slice(0, 80), state: face.status }));
  return { images: images.slice(0, 60), asked: asked.slice(0, 200), fonts: fonts.slice(0, 30) };
}

// Drawings whose numbers are none: the browser leaves such a shape out, or puts it into the corner, without a word here.
const MEASURES = [
  "d", "points", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "dx", "dy", "width", "height", "transform", "viewBox",
];
const NO_NUMBER = /\b(NaN|undefined|null|Infinity)\b/;

function probeDrawings({ items }) {
  const broken = [];
  for (const { el } of items) {
    const name = el instanceof SVGElement && MEASURES.find((each) => NO_NUMBER.test(el.getAttribute(each) ?? ""));
    if (!name) continue;
    broken.push({ name, value: el.getAttribute(name).slice(0, 80), ...where(el) });
    if (broken.length >= 40) break;
  }
  return broken;
}
