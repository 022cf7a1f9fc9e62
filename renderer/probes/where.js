// How a finding names an element: a short path, the start of its text, its box, and the author's line.

const PLAIN_CLASS = /^[a-zA-Z_][\w-]*$/;

function nameOf(el) {
  const tag = el.tagName.toLowerCase();
  if (el.id && PLAIN_CLASS.test(el.id)) return `${tag}#${el.id}`;
  const classes = [...el.classList].filter((name) => PLAIN_CLASS.test(name)).slice(0, 2);
  let name = [tag, ...classes].join(".");
  const twins = el.parentElement ? [...el.parentElement.children].filter((c) => c.tagName === el.tagName) : [];
  if (twins.length > 1) name += `:nth-of-type(${twins.indexOf(el) + 1})`;
  return name.slice(0, 80);
}

function pathOf(el) {
  const names = [];
  for (let at = el; at && at !== document.body && names.length < 3; at = at.parentElement) names.unshift(nameOf(at));
  return names.join(" > ") || "body";
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
