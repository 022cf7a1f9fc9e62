// Letters that no font of this machine has: they are painted as an empty box.
// A letter is missing when it is drawn exactly like a code point that can never have a glyph.

const NOBODY = String.fromCodePoint(0x10fffe);
const COMMON = /[\x00-\u024f\u2010-\u2027\u2030-\u203a\u20ac\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff5e]/u;
const JOINING = /[\p{M}\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u;
const PRIVATE = /\p{Co}/u;
const LETTERS_MAX = 300;

const glyphCanvas = document.createElement("canvas");
glyphCanvas.width = glyphCanvas.height = 40;
const glyphPen = glyphCanvas.getContext("2d", { willReadFrequently: true });

function drawn(letter, font) {
  glyphPen.clearRect(0, 0, 40, 40);
  glyphPen.font = font;
  glyphPen.fillText(letter, 4, 28);
  return glyphPen.getImageData(0, 0, 40, 40).data;
}

function sameDrawing(a, b) {
  for (let i = 3; i < a.length; i += 4) if (a[i] !== b[i]) return false;
  return true;
}

function probeGlyphs({ runs }) {
  const nobody = new Map();
  const checked = new Map();
  const missing = [];
  const isMissing = (letter, family) => {
    const font = `20px ${family}`;
    if (!nobody.has(font)) {
      const drawing = drawn(NOBODY, font);
      nobody.set(font, { drawing, width: glyphPen.measureText(NOBODY).width });
    }
    const none = nobody.get(font);
    glyphPen.font = font;
    return glyphPen.measureText(letter).width === none.width && sameDrawing(drawn(letter, font), none.drawing);
  };
  for (const run of runs) {
    if (run.item.quiet && !PRIVATE.test(run.text)) continue;
    const family = run.item.style.fontFamily;
    const lost = new Set();
    for (const letter of run.text) {
      if (COMMON.test(letter) || (JOINING.test(letter) && !PRIVATE.test(letter))) continue;
      const key = `${family}/${letter}`;
      if (!checked.has(key)) {
        if (checked.size >= LETTERS_MAX) continue;
        checked.set(key, isMissing(letter, family));
      }
      if (checked.get(key)) lost.add(letter);
    }
    if (lost.size) {
      const letters = [...lost].slice(0, 8).map((c) => ({ letter: c, code: c.codePointAt(0) }));
      missing.push({ letters, ...where(run.item.el, run.lines[0], run.text) });
    }
  }
  return missing.slice(0, 40);
}

// Icon fonts and icon libraries that are not there: the name stands as a word, or nothing stands at all.
const ICON_WORDS = /(^|\s)material-(icons|symbols)/;
const ICON_CLASSES = /(^|\s)(fa|fas|far|fab|fa-(solid|regular|brands|light)|bi|mdi|ri|ti|ph|lni|glyphicon)(\s|$)/;

function probeIcons({ items }) {
  const missing = [];
  for (const { el, seen } of items) {
    const names = seen && el.getAttribute("class");
    if (!names || el.childElementCount) continue;
    const words = ICON_WORDS.test(names) && ![...document.fonts].some((face) => /material/i.test(face.family));
    const nothing =
      ICON_CLASSES.test(names) && !el.textContent.trim() && getComputedStyle(el, "::before").content === "none" &&
      getComputedStyle(el).backgroundImage === "none" && getComputedStyle(el).maskImage === "none";
    if (words || nothing) missing.push({ name: names.slice(0, 80), ...where(el) });
  }
  return missing.slice(0, 40);
}
