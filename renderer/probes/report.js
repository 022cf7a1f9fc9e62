// Runs every probe over one reading of the page. A probe that stumbles over a strange page costs only its own answer.

function report(input) {
  const canvas = {
    x0: 0, y0: 0, x1: input.viewport.width, y1: input.viewport.height, auto: input.viewport.auto,
  };
  const answers = {};
  const stumbled = {};
  const ask = (name, probe) => {
    try {
      answers[name] = probe();
    } catch (e) {
      stumbled[name] = String(e).slice(0, 200);
    }
  };
  const page = walkPage();
  page.canvas = canvas;
  page.runs = readTexts(page.items);
  // Hit tests must see what `pointer-events: none` hides from the mouse. Not painted, and gone before anybody looks.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*, ::before, ::after { pointer-events: auto !important }");
  const before = document.adoptedStyleSheets;
  ask("overflow", () => probeOverflow(page));
  ask("clipping", () => probeClipping(page));
  ask("media", () => probeMedia(page));
  ask("drawings", () => probeDrawings(page));
  ask("glyphs", () => probeGlyphs(page));
  ask("icons", () => probeIcons(page));
  document.adoptedStyleSheets = [...before, sheet];
  try {
    ask("overlap", () => probeOverlap(page));
    ask("contrast", () => probeContrast(page));
    ask("cover", () => probeCover(page));
  } finally {
    document.adoptedStyleSheets = before;
  }
  const first = document.querySelector("[data-pg-loc]") ?? document.body?.firstElementChild;
  const { media, ...others } = answers;
  return JSON.stringify({
    ...media, ...others, stumbled,
    page: {
      elements: page.items.length,
      texts: page.runs.length,
      root: first ? where(first) : null,
    },
  });
}
