/* The review: a list of which only the visible part is in the document, and decisions that survive a reload. */
const WORDS = ["keep", "relabel", "drop", "skip"];
const HEIGHT = 88;
const BEYOND = 4;
const FIELDS = ["row", "id", "given", "suggested", "quality", "probability", "reason", "text", "image", "values"];
const issues = data.issues.map((fields, index) =>
  Object.assign({ index, haystack: null }, Object.fromEntries(FIELDS.map((name, i) => [name, fields[i]]))));
const byRow = new Map(issues.map((item) => [item.row, item]));
const filters = find("filters").elements;
const list = find("list");
const canvas = find("canvas");
const buttons = document.querySelectorAll("[data-do]");
const collator = new Intl.Collator(undefined, { numeric: true });
const narrow = matchMedia("(max-width: 900px)");
const count = (number) => number.toLocaleString("en");
const several = (label) => (label === null ? [null] : data.multilabel ? label.split(data.separator) : [label]);
const choices = { given: tally("given"), suggested: tally("suggested") };

let decisions = new Map(); // index of the row -> [word] or ["relabel", label]
let trail = []; // decisions since the last move by hand, for undo: [item, what was before]
let view = [];
let at = -1;
let nodes = new Map();
let saying = 0;

function known(row, word, label) {
  const item = byRow.get(row);
  if (!item || !WORDS.includes(word)) return null;
  if (word !== "relabel") return [word];
  return label === item.suggested || (!data.multilabel && data.classes.includes(label)) ? [word, label] : null;
}

function recall() {
  decisions = new Map();
  try {
    for (const [row, [word, label]] of Object.entries(JSON.parse(stored.read(data.key)) ?? {})) {
      const decision = known(Number(row), word, label);
      if (decision) decisions.set(Number(row), decision);
    }
  } catch { /* not written by this page: start without decisions */ }
}

function save() {
  find("storage").hidden = stored.write(data.key, JSON.stringify(Object.fromEntries(decisions)));
}

function put(item, decision) {
  if (decision) decisions.set(item.row, decision);
  else decisions.delete(item.row);
  save();
}

function decide(word) {
  const item = view[at];
  if (!item) return;
  const label = word === "relabel" ? chosen(item) : undefined;
  if (label === null) return say("Choose another label first.");
  trail.push([item, decisions.get(item.row)]);
  put(item, word === "relabel" ? [word, label] : [word]);
  say(decisions.size === issues.length ? "All rows are reviewed. Export your decisions." : "");
  if (matcher()(item)) at += 1;
  else view.splice(at, 1); // the next row moves up
  at = Math.min(at, view.length - 1);
  reveal();
}

/** Undoes the last decision; after a move, clears the decision of the current row. */
function undo() {
  const [item, before] = trail.pop() ?? [view[at], undefined];
  if (!item) return;
  put(item, before);
  refresh(item);
}

/** The label to give instead, or null if there is none yet. */
function chosen(item) {
  if (data.multilabel) return item.suggested;
  const label = data.classes[find("label").value] ?? null;
  return label === item.given ? null : label;
}

function tally(name) {
  const counts = new Map();
  for (const item of issues) for (const label of several(item[name])) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => (a === null) - (b === null) || collator.compare(a, b));
}

function fillChoices() {
  for (const [name, labels] of Object.entries(choices)) {
    filters[name].append(new Option("Any", ""));
    labels.forEach(([label, rows], i) => filters[name].append(new Option(`${label ?? "no suggestion"} (${rows})`, i)));
  }
  const select = find("label");
  if (!select) return;
  select.append(new Option("choose a label", ""));
  data.classes.forEach((label, i) => select.append(new Option(label, i)));
}

function haystack(item) {
  const parts = [item.id, item.given, item.suggested, item.text, ...(item.values ?? [])];
  return (item.haystack ??= parts.filter((part) => part !== null).join("\n").toLowerCase());
}

function limit(input, otherwise) {
  return input.value === "" || Number.isNaN(input.valueAsNumber) ? otherwise : input.valueAsNumber;
}

/** Returns a function that tells whether a row passes the current filters. */
function matcher() {
  const words = filters.search.value.trim().toLowerCase();
  const state = filters.state.value;
  const [low, high] = [limit(filters.low, -Infinity), limit(filters.high, Infinity)];
  const wanted = ["given", "suggested"].filter((name) => filters[name].value !== "")
    .map((name) => [name, choices[name][filters[name].value][0]]);
  return (item) => {
    const word = decisions.get(item.row)?.[0];
    if (state && state !== word && state !== (word ? "decided" : "undecided")) return false;
    if ((item.quality ?? 0) < low || (item.quality ?? 0) > high) return false;
    if (!wanted.every(([name, label]) => several(item[name]).includes(label))) return false;
    return !words || haystack(item).includes(words);
  };
}

const ORDER = {
  quality: (a, b) => (a.quality ?? 2) - (b.quality ?? 2) || a.index - b.index,
  probability: (a, b) => (b.probability ?? -1) - (a.probability ?? -1) || a.index - b.index,
  given: (a, b) => collator.compare(a.given, b.given) || a.index - b.index,
  row: (a, b) => a.row - b.row,
};

/** Filters and sorts again, and stays at `item` if it is still listed. */
function refresh(item = view[at]) {
  view = issues.filter(matcher()).sort(ORDER[filters.sort.value]);
  at = view.indexOf(item);
  if (at < 0 && view.length) at = 0;
  const active = ["search", "given", "suggested", "state", "low", "high"].some((name) => filters[name].value !== "");
  find("reset").hidden = !active;
  reveal();
}

function choose([given, suggested]) {
  find("filters").reset();
  const index = (name, label) => choices[name].findIndex(([other]) => other === label);
  const place = { given: index("given", given), suggested: index("suggested", given === suggested ? null : suggested) };
  for (const name of ["given", "suggested"]) if (place[name] >= 0) filters[name].value = place[name];
  refresh();
  find("review").scrollIntoView();
  list.focus({ preventScroll: true });
}

function say(text) {
  clearTimeout(saying);
  find("message").textContent = text;
  saying = setTimeout(() => find("message").replaceChildren(), 8000);
}

function chips(label, className) {
  return several(label).map((one) => make("bdi", `chip ${className}`, one === "" ? "(empty)" : one));
}

function change(item) {
  const arrow = make("span", "arrow", "→");
  arrow.setAttribute("aria-label", "suggested");
  const none = item.suggested === null;
  const suggested = none ? [make("span", "none", "no suggestion")] : chips(item.suggested, "suggested");
  return [...chips(item.given, "given"), arrow, ...suggested];
}

const short = (number) => (number < 0.001 ? "<0.001" : String(Number(number.toPrecision(2))));
const quality = (item) => (item.quality === null ? "–" : short(item.quality));
const percent = (item) => `${Math.round(100 * item.probability)} %`;
const pairs = (item) =>
  data.columns.map((name, i) => [name, item.values?.[i] ?? null]).filter(([, value]) => value !== null);

function image(item, className) {
  const picture = make("img", className);
  picture.alt = `Row ${item.id}`;
  picture.addEventListener("load", () => picture.classList.toggle("tiny", picture.naturalWidth <= 64));
  picture.src = item.image;
  return picture;
}

function excerpt(item) {
  const word = ([name, value]) => (item.image ? value : `${name} ${value}`);
  const text = item.text ?? pairs(item).map(word).join("  ·  ");
  return text.slice(0, 240) || item.id;
}

function build(item) {
  const line = make("span", "excerpt", excerpt(item));
  line.dir = "auto";
  const body = make("div", "body", make("div", "labels", ...change(item)), line, make("span", "why", item.reason));
  const numbers = [make("strong", "", quality(item)), make("span", "", item.probability === null ? "" : percent(item))];
  const side = make("div", "side", ...numbers, make("span", "badge"));
  const node = make("div", "item", ...(item.image ? [image(item, "thumb")] : []), body, side);
  node.setAttribute("role", "option");
  node.id = `item-${item.index}`;
  return node;
}

function badge(element, item) {
  const decision = decisions.get(item.row);
  element.hidden = !decision;
  element.className = `badge ${decision?.[0] ?? ""}`;
  element.textContent = decision?.[0] ?? "";
}

function dress(node, item, place) {
  node.style.transform = `translateY(${place * HEIGHT}px)`;
  node.dataset.place = place;
  node.dataset.decision = decisions.get(item.row)?.[0] ?? "";
  node.setAttribute("aria-selected", place === at);
  node.setAttribute("aria-posinset", place + 1);
  node.setAttribute("aria-setsize", view.length);
  badge(node.lastChild.lastChild, item);
}

/** Only the visible rows are in the document; a row keeps its element, so that images do not flicker. */
function drawList() {
  canvas.style.height = `${view.length * HEIGHT}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - BEYOND);
  const last = Math.min(view.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + BEYOND);
  const shown = new Map(view.slice(first, last).map((item) => [item, nodes.get(item) ?? build(item)]));
  let place = first;
  for (const [item, node] of shown) dress(node, item, place++);
  nodes = shown;
  const wanted = [...shown.values()];
  if (wanted.length !== canvas.childElementCount || wanted.some((node, i) => node !== canvas.children[i])) {
    canvas.replaceChildren(...wanted);
  }
  if (view[at]) list.setAttribute("aria-activedescendant", `item-${view[at].index}`);
  else list.removeAttribute("aria-activedescendant");
}

function contents(item) {
  const parts = [];
  if (item.image) parts.push(image(item, "picture"));
  if (item.text !== null) parts.push(Object.assign(make("p", "text", item.text), { dir: "auto" }));
  if (item.values) {
    const cell = (tag, text) => make(tag, "", make("bdi", "", text));
    const entry = ([name, value]) => make("div", "", cell("dt", name), cell("dd", value));
    parts.push(make("dl", "", ...pairs(item).map(entry)));
  }
  return parts;
}

function drawDetail() {
  const item = view[at];
  find("detail").classList.toggle("blank", !item);
  if (!item) return;
  find("name").textContent = item.id === String(item.row) ? `Row ${item.row}` : `${item.id} (row ${item.row})`;
  find("place").textContent = `${count(at + 1)} of ${count(view.length)}`;
  find("content").replaceChildren(...contents(item));
  find("content").scrollTop = 0;
  find("labels").replaceChildren(...change(item));
  const predicted = item.probability === null ? "" : `Predicted with ${percent(item)}`;
  find("numbers").replaceChildren(make("span", "", `Label quality ${quality(item)}`), make("span", "", predicted));
  find("reason").textContent = item.reason;
  badge(find("verdict"), item);
  drawChoice(item);
}

function drawChoice(item) {
  const decision = decisions.get(item.row);
  const select = find("label");
  if (select) {
    const label = decision?.[1] ?? item.suggested;
    const place = label === null ? -1 : data.classes.indexOf(label);
    data.classes.forEach((other, i) => { select.options[i + 1].disabled = other === item.given; });
    select.value = place < 0 ? "" : place;
  }
  for (const button of buttons) {
    if (button.dataset.do !== "undo") button.setAttribute("aria-pressed", button.dataset.do === decision?.[0]);
  }
  nameChoice();
}

function nameChoice() {
  const label = view[at] ? chosen(view[at]) : null;
  const button = document.querySelector("[data-do=relabel]");
  button.setAttribute("aria-label", label === null ? "Relabel" : `Relabel to ${label}`);
  button.setAttribute("aria-disabled", label === null);
}

function drawProgress() {
  const counts = Object.fromEntries(WORDS.map((word) => [word, 0]));
  for (const [word] of decisions.values()) counts[word] += 1;
  const named = WORDS.filter((word) => word !== "skip" || counts.skip).map((word) => `${count(counts[word])} ${word}`);
  const done = `${count(decisions.size)} of ${count(issues.length)} reviewed`;
  find("progress").textContent = decisions.size ? `${done}: ${named.join(", ")}` : done;
  find("bar").setAttribute("aria-valuenow", decisions.size);
  WORDS.forEach((word, i) => { find("bar").children[i].style.width = `${(100 * counts[word]) / issues.length}%`; });
}

function draw() {
  drawList();
  drawDetail();
  drawProgress();
  find("empty").hidden = view.length > 0;
  const all = `${count(issues.length)} ${issues.length === 1 ? "row" : "rows"}`;
  find("count").textContent = view.length === issues.length ? all : `${count(view.length)} of ${all}`;
}

/** Scrolls the list, and only the list, so that the current row is visible. */
function reveal() {
  canvas.style.height = `${view.length * HEIGHT}px`;
  const top = at * HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
  draw();
}

function move(to) {
  trail = [];
  say("");
  at = Math.max(0, Math.min(to, view.length - 1));
  reveal();
}

const FORMULA = /^\s*[\t\r\n=+\-@＝＋－＠]/;
const NUMBER = /^[+-]?[0-9]+(\.[0-9]+)?$/; // as in files.py
const runs = (text) => FORMULA.test(text) && !NUMBER.test(text);
const escaped = (text) => (runs(text) || text.startsWith("'") ? `'${text}` : text);
const unescaped = (text) => text.replace(/^'/, "");
const quoted = (text) => `"${escaped(text).replaceAll('"', '""')}"`;

function exported() {
  const rows = issues.filter((item) => decisions.has(item.row)).sort(ORDER.row).map((item) => {
    const [word, label] = decisions.get(item.row);
    return [item.row, quoted(item.id), word, label === undefined ? "" : quoted(label)].join(",");
  });
  return ["index,id,decision,label", ...rows, ""].join("\r\n");
}

function download() {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([exported()], { type: "text/csv;charset=utf-8" }));
  link.download = "decisions.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(`Exported ${count(decisions.size)} decisions to decisions.csv.`);
}

/** The cells of each line (RFC 4180); `between` is the delimiter, which spreadsheets may change. */
function cells(text, between) {
  const part = new RegExp(`(?:"((?:[^"]|"")*)"|([^"\\r\\n${between}]*))(${between}|\\r?\\n|$)`, "y");
  const lines = [[]];
  while (part.lastIndex < text.length) {
    const [, inQuotes, bare, end] = part.exec(text) ?? [];
    if (end === undefined) return [];
    lines.at(-1).push(inQuotes === undefined ? bare : inQuotes.replaceAll('""', '"'));
    if (end !== between && part.lastIndex < text.length) lines.push([]);
  }
  return lines;
}

function read(text) {
  const between = /^"?index"?([,;\t])/.exec(text)?.[1] ?? ",";
  const [head, ...lines] = cells(text, between);
  if (head?.join() !== "index,id,decision,label") return say("Need a file with the columns index, id, decision, label.");
  let unknown = 0;
  let taken = 0;
  for (const [row, id = "", word, label = ""] of lines.filter((line) => line.join("") !== "")) {
    const decision = byRow.get(Number(row))?.id === unescaped(id) ? known(Number(row), word, unescaped(label)) : null;
    if (decision) { decisions.set(Number(row), decision); taken += 1; } else unknown += 1;
  }
  save();
  trail = [];
  refresh();
  const ignored = unknown ? ` ${count(unknown)} lines do not fit this report and were ignored.` : "";
  say(`Imported ${count(taken)} decisions.${ignored}`);
}

const page = () => Math.max(1, Math.floor(list.clientHeight / HEIGHT) - 1);
const MOVES = {
  n: () => move(at + 1), ArrowDown: () => move(at + 1), p: () => move(at - 1), ArrowUp: () => move(at - 1),
  Home: () => move(0), End: () => move(view.length - 1),
  PageDown: () => move(at + page()), PageUp: () => move(at - page()),
};
const DOES = { ...Object.fromEntries(WORDS.map((word) => [word, () => decide(word)])), undo };
const KEYS = new Map(Object.entries({
  ...MOVES, k: DOES.keep, r: DOES.relabel, d: DOES.drop, Delete: DOES.drop, s: DOES.skip, u: undo,
  "/": () => filters.search.focus(),
}));

/** Keys decide only while the current row is visible, and keep their usual meaning elsewhere. */
function listens(target) {
  const { top, bottom } = find("detail").getBoundingClientRect();
  return bottom > 0 && top < innerHeight && (target === document.body || find("review").contains(target));
}

function press(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = KEYS.get(key);
  if (!act || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, select, textarea") || !listens(event.target)) return;
  if (event.target.id === "content" && key.length > 1 && key in MOVES) return; // arrows scroll a long text there
  event.preventDefault();
  if (event.repeat && !(key in MOVES)) return;
  act();
  if (key !== "/") document.querySelector(".panes").scrollIntoView({ block: "nearest" });
}

function listen() {
  document.addEventListener("keydown", press);
  addEventListener("pair", (event) => choose(event.detail));
  list.addEventListener("scroll", drawList, { passive: true });
  new ResizeObserver(drawList).observe(list);
  canvas.addEventListener("click", (event) => {
    const node = event.target.closest(".item");
    if (!node) return;
    move(Number(node.dataset.place));
    if (narrow.matches) find("detail").scrollIntoView();
  });
  for (const button of buttons) button.addEventListener("click", DOES[button.dataset.do]);
  find("previous").addEventListener("click", MOVES.p);
  find("next").addEventListener("click", MOVES.n);
  find("label")?.addEventListener("change", nameChoice);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  find("filters").addEventListener("input", () => { trail = []; refresh(); });
  find("reset").addEventListener("click", () => { find("filters").reset(); refresh(); list.focus(); });
  find("more").addEventListener("click", () => {
    const open = find("filters").classList.toggle("open");
    find("more").setAttribute("aria-expanded", open);
  });
  find("export").addEventListener("click", download);
  find("import").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", async ({ target }) => {
    if (target.files[0]) read((await target.files[0].text()).replace(/^\uFEFF/, ""));
    target.value = "";
  });
  addEventListener("storage", (event) => {
    if (event.key === PREFIX + data.key) { recall(); refresh(); }
  });
}

list.style.setProperty("--row", `${HEIGHT}px`);
recall();
save();
fillChoices();
listen();
refresh(issues.find((item) => !decisions.has(item.row)));
list.focus({ preventScroll: true });
