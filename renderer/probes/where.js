// How a finding names an element: a short path, the start of its text, its box, and the author's line.

const PLAIN_CLASS = /^[a-zA-Z_][\w-]*$/;

const names = new Map();

function nameOf(el) {
  let name = names.get(el);
  if (!name) names.set(el, (name = newName(el)));
  return name;
}

function newName(el) {
  const tag = el.tagName.toLowerCase();
  if (el.id && PLAIN_CLASS.test(el.id)) return `${tag}#${el.id}`;
  const classes = [...el.classList].filter((name) => PLAIN_CLASS.test(name)).slice(0, 2);
  const name = [tag, ...classes].join(".");
  const place = placeAmongTwins(el);
  return (place ? `${name.slice(0, 80)}:nth-of-type(${place})` : name).slice(0, 100);
}

// Which of its siblings of the same kind an element is; 0 when it is the only one.
function placeAmongTwins(el) {
  let before = 0;
  for (let at = el.previousElementSibling; at; at = at.previousElementSibling) before += at.tagName === el.tagName;
  if (before) return before + 1;
  for (let at = el.nextElementSibling; at; at = at.nextElementSibling) if (at.tagName === el.tagName) return 1;
  return 0;
}

function pathOf(el) {
  const path = [];
  for (let at = el; at && at !== document.body && path.length < 3; at = at.parentElement) path.unshift(nameOf(at));
  return path.join(" > ") || "body";
}

function locOf(el) {
  return el.closest("[data-pg-loc]")?.getAttribute("data-pg-loc").slice(0, 300) ?? "";
}

function startOf(text) {
  return text.replace(/\s+/g, " ").trim().slice(0, 60);
}

function roundBox(box) {
  return [box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0].map((n) => Math.round(n * 10) / 10);
}

function where(el, box, text) {
  return {
    path: pathOf(el),
    loc: locOf(el),
    text: startOf(text ?? el.textContent.slice(0, 400)),
    rect: roundBox(box ?? pageBox(el.getBoundingClientRect())),
  };
}
