"use strict";
// DATA is defined before: see page.py. All text goes through textContent.
const BATCH = 50;
const find = (selector) => document.querySelector(selector);
const form = find(".filters");
const list = find("#cases");
const more = find("#more");
const FIELDS = ["verdict", "backend", "operator", "class", "type", "version", "name"];
// The page opens with what is not exact, if there is such a case.
const FIRST = { verdict: DATA.failures ? "not exact" : "any" };
let shown = [];
let filled = 0;
let typing = false;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function badge(result, backend) {
  const { verdict, ulps } = result;
  const word = verdict === "ulps" ? `${ulps} ulp${ulps === 1 ? "" : "s"}` : verdict;
  const text = backend && DATA.backends.length > 1 ? `${backend}: ${word}` : word;
  return make("span", text, `badge ${DATA.colours[verdict] ?? "bad"}`);
}

function table(caption, head, rows, mark) {
  const box = make("div", undefined, "scroll");
  const body = make("table", undefined, "values");
  body.append(make("caption", caption));
  const first = make("tr");
  for (const word of head) {
    const cell = make("th", word);
    cell.scope = "col";
    first.append(cell);
  }
  body.append(first);
  for (const row of rows) {
    const line = make("tr", undefined, mark(row));
    head.forEach((_, i) => line.append(make("td", row[i])));
    body.append(line);
  }
  box.append(body);
  return box;
}

const values = (array) => `${array.type}[${array.shape.join(", ")}]`;
const part = (rows, size) => (size > rows.length ? `${rows.length} of ${size} elements` : "");

// The explanation of an element, and the terms that it is the sum of.
function explanation(item, place) {
  const { why, of, count, terms } = item.explained[place];
  const parts = [make("p", why, "why")];
  if (terms.length) {
    const caption = `The ${count === 1 ? "term" : `${count} terms`}${of}` +
      (terms.some((row) => row[3]) ? "; the hard ones are bold" : "");
    const mark = (row) => (row[3] ? "hard" : row[2] ? "" : "gap");
    parts.push(table(caption, ["index", "value", "bits"], terms, mark));
  }
  return parts;
}

function failure(item, result, i, told) {
  const parts = [make("h4", `${DATA.backends[i]}: `)];
  parts[0].append(badge(result));
  if (result.text) parts.push(make("p", result.text, "said"));
  if (result.known) parts.push(make("p", `Known: ${result.known}`));
  if (result.rows.length) {
    const both = result.rows[0].length === 5;
    const caption = `Got ${values(result)} ${part(result.rows, result.size)}`;
    const head = both ? ["index", "expected", "bits", "got", "bits"] : ["index", "got", "bits"];
    const mark = (row) => (both && row[2] !== row[4] ? "different" : "");
    parts.push(table(caption, head, result.rows, mark));
  } else if (result.type) parts.push(make("p", `Got ${values(result)}`));
  if (result.place !== null && !told.has(result.place)) {
    told.add(result.place);
    parts.push(...explanation(item, result.place));
  }
  const passes = `${result.passes ? "Passes" : "Does not pass"} at ${DATA.tolerance}.`;
  parts.push(make("p", passes, "muted"));
  return parts;
}

function command(item, backend) {
  const line = make("p", "Run it again: ", "again");
  line.append(make("code", `halfulp verify ${backend} --case ${item.name}`));
  return line;
}

function fill(details, item) {
  const box = make("div", undefined, "case");
  const failing = DATA.backends.filter((_, i) => item.results[i]?.verdict !== "exact" && item.results[i]);
  box.append(make("p", item.about));
  const told = new Set();
  item.results.forEach((result, i) => {
    if (!result || result.verdict === "exact") return;
    box.append(...failure(item, result, i, told));
  });
  if (!told.size && item.hardest !== null) box.append(...explanation(item, item.hardest));
  if (!item.expected) box.append(make("p", "Expected: an error"));
  else if (!failing.length && item.expected.rows.length) {
    const { rows, size } = item.expected;
    const caption = `Expected ${values(item.expected)} ${part(rows, size)}`;
    box.append(table(caption, ["index", "value", "bits"], rows, () => ""));
  }
  box.append(command(item, (failing.length ? failing : DATA.backends).map((name) => DATA.quoted[name]).join(" ")));
  box.append(make("p", item.node, "muted"));
  const link = make("a", item.source);
  link.href = item.source;
  const source = make("p", "Source: ");
  source.append(link);
  box.append(source);
  details.append(box);
}

function entry(item) {
  const line = make("li");
  const details = make("details");
  details.id = item.name;
  const summary = make("summary", item.name);
  item.results.forEach((result, i) => {
    if (result && result.verdict !== "exact") summary.append(" ", badge(result, DATA.backends[i]));
  });
  const exact = item.results.filter((result) => result?.verdict === "exact").length;
  if (exact) {
    const text = DATA.backends.length === 1 ? "exact" : `${exact} exact`;
    summary.append(" ", make("span", text, "badge good"));
  }
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) fill(details, item);
    if (details.open) remember(wishes(), "replaceState", item.name);
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
    .map((result) => result.verdict);
  const verdict = wish.verdict === "not exact"
    ? words.some((word) => word !== "exact")
    : words.some((word) => wish.verdict === "any" || word === wish.verdict);
  return verdict &&
    (!wish.class || item.class === wish.class) &&
    (!wish.type || item.type === wish.type) &&
    (!wish.version || String(item.version) === wish.version) &&
    item.name.includes(wish.name.trim());
}

const wishes = () => Object.fromEntries(new FormData(form));

// Filters, and the case that was opened last, stand in the fragment of the address.
function remember(wish, how, name) {
  const facts = FIELDS.filter((field) => wish[field] !== (FIRST[field] ?? ""))
    .map((field) => [field, wish[field]]);
  if (name) facts.push(["case", name]);
  history[how](null, "", `#${new URLSearchParams(facts)}`);
}

function show(name) {
  const wish = wishes();
  shown = DATA.cases.filter((item) => matches(item, wish));
  const named = DATA.cases.find((item) => item.name === name);
  if (named && !shown.slice(0, BATCH).includes(named)) {
    shown = [named, ...shown.filter((item) => item !== named)];
  }
  const told = FIELDS.filter((field) => wish[field] && wish[field] !== "any")
    .map((field) => `${field} ${wish[field]}`).join(", ");
  find("#count").textContent = `${shown.length} of ${DATA.cases.length} cases` +
    (told ? `: ${told}` : "");
  find("#none").hidden = shown.length > 0;
  list.replaceChildren();
  filled = 0;
  fillMore();
  if (!named) return;
  const details = document.getElementById(name);
  details.open = true;
  details.scrollIntoView();
}

// What the address says; Back and Forward come here too.
function read() {
  const facts = new URLSearchParams(location.hash.slice(1));
  form.reset();
  for (const field of FIELDS) {
    const value = facts.get(field) ?? FIRST[field];
    if (value !== undefined) form.elements[field].value = value;
    if (form.elements[field].selectedIndex === -1) form.elements[field].selectedIndex = 0;
  }
  typing = false;
  show(facts.get("case"));
}

function choose(wish) {
  remember({ ...Object.fromEntries(FIELDS.map((field) => [field, ""])), ...FIRST, ...wish }, "pushState");
  read();
  find("#list").scrollIntoView();
}

form.addEventListener("input", (event) => {
  // A name is one step back, not one for each letter.
  const typed = event.target.name === "name";
  remember(wishes(), typed && typing ? "replaceState" : "pushState");
  typing = typed;
  show();
});
form.addEventListener("submit", (event) => event.preventDefault());
for (const button of document.querySelectorAll(".all")) {
  button.addEventListener("click", () => choose({ verdict: "any" }));
}
for (const link of document.querySelectorAll(".to")) {
  link.addEventListener("click", (event) => {
    event.preventDefault(); // the fragment is for the filters
    find(link.hash).scrollIntoView();
  });
}
more.addEventListener("click", fillMore);
window.addEventListener("popstate", read);
for (const button of document.querySelectorAll(".matrix button")) {
  button.addEventListener("click", () => {
    choose({ ...button.dataset, verdict: "any" });
    const details = list.querySelector("details");
    if (shown.length === 1) details.open = true;
    details.querySelector("summary").focus({ preventScroll: true });
  });
}
read();
