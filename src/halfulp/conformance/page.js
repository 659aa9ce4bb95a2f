"use strict";
// DATA is defined before: see page.py. All text goes through textContent.
const BATCH = 100;
const find = (selector) => document.querySelector(selector);
const form = find(".filters");
const list = find("#cases");
const more = find("#more");
let shown = [];
let filled = 0;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function badge(result, backend) {
  const [verdict, ulps] = result;
  const word = verdict === "ulps" ? `${ulps} ulp${ulps === 1 ? "" : "s"}` : verdict;
  const text = backend && DATA.backends.length > 1 ? `${backend}: ${word}` : word;
  return make("span", text, `badge ${DATA.colours[verdict] ?? "bad"}`);
}

function table(head, rows) {
  const box = make("div", undefined, "scroll");
  const body = make("table", undefined, "values");
  const first = make("tr");
  for (const word of head) first.append(make("th", word));
  body.append(first);
  for (const row of rows) {
    const line = make("tr");
    const differs = row.length === 5 && row[2] !== row[4];
    row.forEach((text, i) => line.append(make("td", text, differs && i > 2 ? "different" : "")));
    body.append(line);
  }
  box.append(body);
  return box;
}

function arrays(title, name, type, shape, size, rows) {
  const part = [make("h4", `${title}${name}: ${type}[${shape.join(", ")}]`)];
  if (rows.length) part.push(table(["index", "value", "bits"], rows));
  if (size > rows.length) part.push(make("p", `${rows.length} of ${size} elements`, "muted"));
  return part;
}

function fill(details, item) {
  const box = make("div", undefined, "case");
  box.append(make("p", item.node), make("p", item.why));
  const link = make("a", item.source);
  link.href = item.source;
  const source = make("p", "Source: ");
  source.append(link);
  box.append(source);
  for (const input of item.inputs) box.append(...arrays("Input ", ...input));
  if (item.expected) box.append(...arrays("Expected", "", ...item.expected));
  else box.append(make("h4", "Expected: an error"));
  DATA.backends.forEach((backend, i) => {
    const result = item.results[i];
    if (!result) return;
    const [, , passes, text, type, shape, rows, known] = result;
    const head = make("h4", `${backend}: `);
    head.append(badge(result));
    box.append(head);
    if (text) box.append(make("p", text));
    if (known) box.append(make("p", `Known: ${known}`));
    if (type) {
      box.append(make("p", `Got ${type}[${shape.join(", ")}]`));
      const columns = ["index", "expected", "bits", "got", "bits"];
      if (rows.length) {
        box.append(table(rows[0].length === 5 ? columns : ["index", "got", "bits"], rows));
      }
    }
    box.append(make("p", `${passes ? "Passes" : "Does not pass"} at ${DATA.tolerance}.`, "muted"));
  });
  details.append(box);
}

function entry(item) {
  const line = make("li");
  const details = make("details");
  const summary = make("summary", item.name);
  item.results.forEach((result, i) => {
    if (result) summary.append(badge(result, DATA.backends[i]));
  });
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    if (details.children.length === 1) fill(details, item);
    history.replaceState(null, "", `#${item.name}`);
  });
  line.append(details);
  return line;
}

function fillMore() {
  const next = shown.slice(filled, filled + BATCH);
  list.append(...next.map(entry));
  filled += next.length;
  more.hidden = filled >= shown.length;
}

function matches(item, wish) {
  const words = item.results
    .filter((result, i) => result && (!wish.backend || DATA.backends[i] === wish.backend))
    .map((result) => result[0]);
  const verdict = wish.verdict === "not exact"
    ? words.some((word) => word !== "exact")
    : words.some((word) => !wish.verdict || word === wish.verdict);
  return verdict &&
    (!wish.class || item.class === wish.class) &&
    (!wish.type || item.type === wish.type) &&
    (!wish.version || String(item.version) === wish.version) &&
    item.name.includes(wish.name.trim());
}

function update() {
  const wish = Object.fromEntries(new FormData(form));
  shown = DATA.cases.filter((item) => matches(item, wish));
  find("#count").textContent = `${shown.length} of ${DATA.cases.length} cases`;
  list.replaceChildren();
  filled = 0;
  fillMore();
}

function choose(wish) {
  form.reset();
  for (const [name, value] of Object.entries(wish)) form.elements[name].value = value;
  update();
  find("#list").scrollIntoView();
}

function openNamed() {
  const name = decodeURIComponent(location.hash.slice(1));
  if (!DATA.cases.some((item) => item.name === name)) return;
  choose({ name });
  const details = list.querySelector("details");
  details.open = true;
  details.querySelector("summary").focus();
}

form.addEventListener("input", update);
form.addEventListener("submit", (event) => event.preventDefault());
find("#all").addEventListener("click", () => choose({}));
more.addEventListener("click", fillMore);
window.addEventListener("hashchange", openNamed);
for (const button of document.querySelectorAll(".matrix button")) {
  button.addEventListener("click", () => {
    choose({ ...button.dataset });
    const details = list.querySelector("details");
    if (shown.length === 1) details.open = true;
    details.querySelector("summary").focus({ preventScroll: true });
  });
}
update();
openNamed();
