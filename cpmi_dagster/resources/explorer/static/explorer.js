// Keys, forms that send themselves, and mathematics. Pages work as plain links and forms without any of it.
"use strict";

// a dollar sign may be money: `$…$` is mathematics where it holds what LaTeX alone has, or no blank, and no digit follows;
// a `\boxed{…}` is mathematics without any, and a dollar in it money
const FENCED = /\$\$([^$]+)\$\$|\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|\$((?=[^$]*[\\^_{=])[^$\s][^$\n]*[^$\s\\]|[^$\s]+)\$(?!\d)|(\\boxed\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})/g;

// beyond these KaTeX exhausts the tab; a switch such as `\bf` nests until its group ends
const MOST_CHARACTERS = 5000;
const MOST_NESTED = 50;
const NESTING = /\\[{}]|(\}|\\(?:right|end)(?![a-zA-Z]))|(\{|\\(?:left|begin)(?![a-zA-Z]))|\\(?:color|bf|it|rm|sf|tt|cal|[a-z]+style|[a-z]*size|tiny|small|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z])/g;

function isBounded(tex) {
  const outside = [];
  let depth = 0;
  for (const [sign, closes, opens] of tex.matchAll(NESTING)) {
    if (sign === "\\{" || sign === "\\}") continue;
    if (opens) outside.push(depth);
    depth = closes ? (outside.pop() ?? 0) : depth + 1;
    if (depth > MOST_NESTED) return false;
  }
  return tex.length <= MOST_CHARACTERS;
}

function rendered(tex, displayMode, source) {
  if (!isBounded(tex)) return source;
  const place = document.createElement("span");
  katex.render(tex, place, { displayMode, throwOnError: false, trust: false, maxSize: 20, maxExpand: 200, strict: "ignore" });
  return place;
}

function typeset(node) {
  const text = node.textContent;
  if (node.classList.contains("answer") && text.includes("\\") && !text.includes("$")) {
    node.replaceChildren(rendered(text, false, text));
    return;
  }
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(FENCED)) {
    const tex = found[1] ?? found[2] ?? found[3] ?? found[4] ?? found[5].replace(/(?<!\\)\$/g, "\\$");
    parts.push(text.slice(end, found.index), rendered(tex, Boolean(found[1] ?? found[2]), found[0]));
    end = found.index + found[0].length;
  }
  if (parts.length) node.replaceChildren(...parts, text.slice(end));
}

function typesetAll() {
  for (const node of document.querySelectorAll(".math:not([data-typeset])")) {
    node.dataset.typeset = "";
    if (!node.childElementCount) typeset(node);
  }
}

function showAsked() {
  const asked = document.getElementById("asked");
  asked?.scrollIntoView({ block: asked.offsetHeight > innerHeight ? "start" : "nearest" });
}

function choose(rows, way) {
  const now = rows.findIndex((row) => row.classList.contains("on"));
  const next = Math.min(Math.max(now + way, 0), rows.length - 1);
  rows[now]?.classList.remove("on");
  rows[next].classList.add("on");
  rows[next].scrollIntoView({ block: "nearest" });
}

function go(way) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (rows.length) choose(rows, way);
  else document.getElementById(way > 0 ? "next" : "previous")?.click();
}

function goToStep(way) {
  const links = [...document.querySelectorAll("a.step")];
  const now = links.findIndex((link) => link.closest("tr").classList.contains("chosen"));
  links[now + way]?.click();
}

const KEYS = {
  j: () => go(1),
  k: () => go(-1),
  n: () => goToStep(1),
  p: () => goToStep(-1),
  s: () => document.querySelector(".sql > summary")?.click(),
  "/": () => (document.getElementById("search") ?? document.querySelector("select"))?.focus(),
  "?": () => document.getElementById("keys").showModal(),
  Enter: () => document.querySelector("tr[data-row].on a")?.click(),
};

// once: until the next page is there, a key would judge the same step again
function press(control) {
  for (const each of document.querySelectorAll("[data-key]")) delete each.dataset.key;
  control.click();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea, dialog");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const control = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (control) {
    event.preventDefault();
    if (!event.repeat) press(control);
    return;
  }
  if (!Object.hasOwn(KEYS, event.key)) return;
  if (event.key === "Enter" && event.target !== document.body) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});
document.addEventListener("click", (event) => {
  const opener = event.target.closest?.("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens).showModal();
});
function onPage() {
  typesetAll();
  showAsked();
}

document.addEventListener("htmx:after:swap", onPage);
document.addEventListener("htmx:after:history:restore", onPage);
onPage();
