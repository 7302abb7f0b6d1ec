// What a page owes to people who see little, hear a page or use no mouse. Returns what is wrong, in words.
const wrong = [];
const say = (rule, node) => wrong.push(rule + ": " + node.outerHTML.slice(0, 160));

const visible = (node) => {
  const style = getComputedStyle(node);
  return style.display !== "none" && style.visibility !== "hidden" && node.getClientRects().length > 0;
};
const name = (node) => {
  const by = node.getAttribute("aria-labelledby");
  const label = by ? by.split(/\s+/).map((id) => (document.getElementById(id) || {}).textContent || "").join(" ") : "";
  const labels = node.labels ? [...node.labels].map((each) => each.textContent).join(" ") : "";
  return (node.getAttribute("aria-label") || label || labels || node.textContent || node.title || "").trim();
};

if (!document.documentElement.lang) wrong.push("the page says no language");
if (!document.title.trim()) wrong.push("the page has no title");
if (document.querySelectorAll("main").length !== 1) wrong.push("there is not exactly one main part");
if (document.querySelectorAll("h1").length !== 1) wrong.push("there is not exactly one h1");

const seen = new Set();
for (const node of document.querySelectorAll("[id]")) {
  if (seen.has(node.id)) say("an id is there twice", node);
  seen.add(node.id);
}
for (const node of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a[href]")) {
  if (visible(node) && !name(node) && !node.querySelector("title")) say("it has no name", node);
}
for (const node of document.querySelectorAll("[aria-labelledby]")) {
  if (!name(node)) say("what names it is not there", node);
}
for (const node of document.querySelectorAll("[role=img], nav, [role=region], [role=search]")) {
  if (!node.getAttribute("aria-label") && !node.getAttribute("aria-labelledby")) say("it says not what it is", node);
}
let level = 0;
for (const node of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
  const now = Number(node.tagName[1]);
  if (level && now > level + 1) say("a level of headings is left out", node);
  level = now;
}
for (const node of document.querySelectorAll("td, th")) {
  if (!node.closest("table").querySelector("th")) { say("a table has no heads", node.closest("table")); break; }
}

const number = (text) => {
  const found = text.match(/rgba?\(([^)]+)\)/);
  if (found) return found[1].split(/[ ,/]+/).map(Number);
  const srgb = text.match(/color\(srgb ([^)]+)\)/);
  if (!srgb) return [0, 0, 0, 0];
  const parts = srgb[1].split(/[ /]+/).map(Number);
  return [parts[0] * 255, parts[1] * 255, parts[2] * 255, parts.length > 3 ? parts[3] : 1];
};
const over = (front, back) => {
  const alpha = front[3] === undefined ? 1 : front[3];
  return [0, 1, 2].map((i) => front[i] * alpha + back[i] * (1 - alpha));
};
const light = (colour) => {
  const [r, g, b] = colour.map((each) => each / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  const layers = [];
  for (let at = node; at; at = at.parentElement) layers.push(number(getComputedStyle(at).backgroundColor));
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return layers.reverse().reduce((below, layer) => over(layer, below), dark ? [18, 18, 18] : [255, 255, 255]);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const looked = new Set();
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || looked.has(node) || !visible(node)) continue;
  looked.add(node);
  if (node.closest("svg, .unseen, .skip, option, script, style")) continue;
  const style = getComputedStyle(node);
  const back = ground(node);
  const one = light(over(number(style.color), back));
  const two = light(back);
  const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) say("too little contrast (" + ratio.toFixed(2) + ")", node);
}
return wrong.slice(0, 12);
