// Text that is cut by a box with `overflow: hidden`, told by the innermost box that cuts it.
// Not cut: what the author shortens on purpose (ellipsis, line clamp, a fade, "show more"), what moves through its
// frame (marquees, carousels, odometers), what is folded away (accordions), what is only there for screen readers.

const CUT_EM = 0.15; // deeper than a descender in a tight line
const MORE = /\b(more|all|expand|show|read)\b|更多|展开|展開|全文|查看|もっと|더 ?보기/i;

function isFade(clip) {
  for (const child of clip.item.el.children) {
    const style = getComputedStyle(child);
    if ((style.position === "absolute" || style.position === "sticky") && style.backgroundImage.includes("gradient(")) return true;
  }
  return ["::before", "::after"].some((part) => {
    const style = getComputedStyle(clip.item.el, part);
    return style.content !== "none" && style.backgroundImage.includes("gradient(");
  });
}

function canUnfold(clip) {
  const el = clip.item.el;
  const near = [...(el.parentElement?.children ?? [])].filter((c) => c !== el);
  return near.some((c) => {
    const button = c.matches("button, a, summary, [role=button]") ? c : c.querySelector("button, summary, [role=button]");
    return button && (button.hasAttribute("aria-expanded") || MORE.test(button.textContent));
  });
}

// Is it moved up or down? What is only centred sideways is not.
function isMovedUpright({ transform, translate }) {
  const m = /^matrix\(1, 0, 0, 1, [^,]+, ([^)]+)\)$/.exec(transform);
  if (transform !== "none" && !(m && Number(m[1]) === 0)) return true;
  return translate !== "none" && Math.abs(parseFloat(translate.split(" ")[1] ?? "0")) > 0;
}

// Does anything between the text and the box that cuts it move, or stand out of the flow far away?
// In a drawing a transform is only how things are placed.
function movesInside(item, clip, sideways) {
  for (let at = item; at && at !== clip.item; at = at.up) {
    const { animationName, transform, translate } = at.style;
    if (animationName !== "none") return true;
    if (at.svg) continue;
    if (sideways ? transform !== "none" || translate !== "none" : isMovedUpright(at.style)) return true;
  }
  return clip.item.style.animationName !== "none";
}

function chosenCut(run, clip, side) {
  const style = clip.item.style;
  const sideways = side === "left" || side === "right";
  if (sideways && style.textOverflow !== "clip") return true;
  if (!sideways && style.webkitLineClamp !== "none") return true;
  for (let at = run.item; at && at !== clip.item; at = at.up) {
    if (at.style.webkitLineClamp !== "none") return true;
    if (sideways && at.style.textOverflow !== "clip" && at.style.overflowX !== "visible") return true;
  }
  return movesInside(run.item, clip, sideways) || isFade(clip) || (!sideways && canUnfold(clip));
}

function cutsOf(ink, clip) {
  const cuts = [];
  if (clip.y === "hidden") cuts.push(["bottom", ink.y1 - clip.box.y1], ["top", clip.box.y0 - ink.y0]);
  if (clip.x === "hidden") cuts.push(["right", ink.x1 - clip.box.x1], ["left", clip.box.x0 - ink.x0]);
  return cuts;
}

function isFolded(run, clip) {
  const width = clip.box.x1 - clip.box.x0;
  const height = clip.box.y1 - clip.box.y0;
  return width < run.size * 0.7 || height < run.size * 0.7;
}

// A row that goes on outside its frame, or holds the same words twice, is a strip to be moved: a marquee, a carousel.
function isStrip(run, clip, runs) {
  if (run.item.svg || run.item.el.closest("td, th")) return false;
  return runs.some((other) => {
    if (other === run || other.ornament || !clip.item.el.contains(other.item.el)) return false;
    const line = other.lines[0];
    return other.text === run.text || line.x0 >= clip.box.x1 || other.lines.every((each) => each.x1 <= clip.box.x0);
  });
}

// One line of room, and a second text waiting above or below it for the pointer.
function waitsForPointer(run, clip) {
  if (clip.box.y1 - clip.box.y0 < run.size * 2.5) return true;
  for (let at = run.item; at && at !== clip.item.up; at = at.up) {
    const { transitionDuration, transitionProperty } = at.style;
    if (transitionDuration !== "0s" && /all|transform|translate|top|margin/.test(transitionProperty)) return true;
  }
  return false;
}

// The part of a text that a box leaves out: null when nothing is lost, or when nothing of it was meant to show there.
function cutBy(run, clip) {
  let worst = null;
  let inside = 0;
  for (const line of run.lines) {
    const ink = inkOf(run, line);
    if (!isEmpty(meet(ink, clip.box))) inside += 1;
    for (const [side, px] of cutsOf(ink, clip)) {
      if (px > Math.max(EDGE_PX, run.size * CUT_EM) && (!worst || px > worst.px)) worst = { side, px };
    }
  }
  if (!worst) return null;
  const sideways = worst.side === "left" || worst.side === "right";
  if (!inside && worst.side === "top") return null;
  if (!inside && sideways && !run.item.el.closest("td, th")) return null;
  if (!inside && run.item.lifted && clip.item.el.contains(run.item.lifted)) return null;
  if (!inside && waitsForPointer(run, clip)) return null;
  return worst;
}

function probeClipping({ runs, canvas }) {
  const found = new Map();
  for (const run of runs) {
    if (run.ornament || run.unruly || run.item.turned || run.item.shaped) continue;
    for (let clip = run.item.inner; clip; clip = clip.up) {
      if (clip.x === "scroll" || clip.y === "scroll") break;
      const cut = cutBy(run, clip);
      if (!cut) continue;
      const edge = !run.item.svg && canvasClip(clip, canvas);
      if (isFolded(run, clip) || edge || chosenCut(run, clip, cut.side)) break;
      if ((cut.side === "left" || cut.side === "right") && isStrip(run, clip, runs)) break;
      const known = found.get(clip.item);
      if (!known) found.set(clip.item, { ...cut, run });
      else known.px = Math.max(known.px, cut.px);
      break;
    }
  }
  return [...found].map(([item, { side, px, run }]) => ({
    side, px: Math.round(px * 10) / 10, order: item.order, drawn: run.item.svg, paint: paintOf(run), ...where(item.el, item.box, run.text),
  }));
}
