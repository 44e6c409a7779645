/* The list: filters, order, and the rows of which only the visible part is in the document. */
const gallery = data.kind === "images";
const HEIGHT = gallery ? 158 : 62;
const MIN_WIDTH = 124; // of a picture in the gallery
const BEYOND = 4; // lines drawn above and below what is visible
const filters = find("filters").elements;
const list = find("list");
const canvas = find("canvas");
const collator = new Intl.Collator(undefined, { numeric: true });
const choices = { given: tally("given"), suggested: tally("suggested") };

let view = [];
let at = -1;
let nodes = new Map();

function tally(name) {
  const counts = new Map();
  for (const item of issues) for (const label of several(item[name])) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => (a === null) - (b === null) || collator.compare(a, b));
}

function fillFilters() {
  for (const [name, labels] of Object.entries(choices)) {
    filters[name].append(new Option("Any", ""));
    labels.forEach(([label, rows], i) => filters[name].append(new Option(`${label ?? "no suggestion"} (${rows})`, i)));
  }
}

function haystack(item) {
  const parts = [item.id, item.given, item.suggested, item.text, ...(item.values ?? []).map(([, value]) => value)];
  return (item.haystack ??= parts.filter((part) => part !== null).join("\n").toLowerCase());
}

function limit(input, otherwise) {
  return input.value === "" || Number.isNaN(input.valueAsNumber) ? otherwise : input.valueAsNumber;
}

/** Returns a function that tells whether a row passes the current filters. */
function matcher() {
  const words = filters.search.value.trim().toLowerCase();
  const state = filters.state.value;
  const mark = filters.flagged.value;
  const [low, high] = [limit(filters.low, -Infinity), limit(filters.high, Infinity)];
  const wanted = ["given", "suggested"].filter((name) => filters[name].value !== "")
    .map((name) => [name, choices[name][filters[name].value][0]]);
  return (item) => {
    const word = decisions.get(item.row)?.[0];
    if (mark && item.flagged !== (mark === "yes")) return false;
    if (state && state !== word && state !== (word ? "decided" : "undecided")) return false;
    if ((item.quality ?? 0) < low || (item.quality ?? 0) > high) return false;
    if (!wanted.every(([name, label]) => several(item[name]).includes(label))) return false;
    return !words || haystack(item).includes(words);
  };
}

const ORDER = {
  quality: (a, b) => b.flagged - a.flagged || (a.quality ?? 2) - (b.quality ?? 2) || a.index - b.index,
  probability: (a, b) => (b.probability ?? -1) - (a.probability ?? -1) || a.index - b.index,
  given: (a, b) => collator.compare(a.given, b.given) || a.index - b.index,
  row: (a, b) => a.row - b.row,
};

/** Filters and sorts again, and stays at `item` if it is still listed. */
function refresh(item = view[at]) {
  view = checking ? drawn.map((each) => each.item) : issues.filter(matcher()).sort(ORDER[filters.sort.value]);
  at = view.indexOf(item);
  if (at < 0 && view.length) at = 0;
  const names = ["search", "given", "suggested", "flagged", "state", "low", "high"];
  find("reset").hidden = !names.some((name) => filters[name].value !== "");
  reveal();
}

/** Lists the flagged rows with this given and this suggested label. */
function choose([given, suggested]) {
  check(false);
  find("filters").reset();
  const index = (name, label) => choices[name].findIndex(([other]) => other === label);
  const place = { given: index("given", given), suggested: index("suggested", given === suggested ? null : suggested) };
  for (const name of ["given", "suggested"]) if (place[name] >= 0) filters[name].value = place[name];
  filters.flagged.value = "yes";
  refresh();
  find("review").scrollIntoView();
  list.focus({ preventScroll: true });
}

const columns = () => (gallery ? Math.max(2, Math.floor(list.clientWidth / MIN_WIDTH)) : 1);
const lineOf = (place) => Math.floor(place / columns());

function build(item) {
  const labels = make("div", "labels", ...change(item));
  const line = make("span", "excerpt", excerpt(item));
  line.dir = "auto";
  const parts = gallery && item.image ? [image(item, "thumb"), labels] : [make("div", "body", labels, line)];
  const telling = item.quality !== null && item.quality >= 0.001;
  const number = make("span", "", telling ? short(item.quality) : "");
  if (telling) number.title = "Label quality";
  const node = make("div", "item", ...parts, make("div", "side", number, make("span", "mark"), make("span", "badge")));
  node.classList.toggle("below", !item.flagged);
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
  const across = columns();
  node.style.transform = `translateY(${lineOf(place) * HEIGHT}px)`;
  node.style.left = `${(100 * (place % across)) / across}%`;
  node.style.width = `${100 / across}%`;
  node.dataset.place = place;
  node.dataset.decision = decisions.get(item.row)?.[0] ?? "";
  node.setAttribute("aria-selected", place === at);
  node.setAttribute("aria-posinset", place + 1);
  node.setAttribute("aria-setsize", view.length);
  const [, mark, word] = node.lastChild.children;
  mark.textContent = item.flagged || decisions.has(item.row) ? "" : "not flagged";
  badge(word, item);
}

/** Only the visible rows are in the document; a row keeps its element, so that images do not flicker. */
function drawList() {
  const across = columns();
  canvas.style.height = `${Math.ceil(view.length / across) * HEIGHT}px`;
  const first = across * Math.max(0, Math.floor(list.scrollTop / HEIGHT) - BEYOND);
  const last = across * (Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + BEYOND);
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

function draw() {
  if (!checking) drawList();
  drawDetail();
  drawProgress();
  drawMeasured();
  find("empty").hidden = view.length > 0;
  const all = `${count(issues.length)} ${issues.length === 1 ? "row" : "rows"}`;
  const below = flagged.length < issues.length ? `, ${count(flagged.length)} flagged` : "";
  find("count").textContent = view.length === issues.length ? `${all}${below}` : `${count(view.length)} of ${all}`;
}

/** Scrolls the list, and only the list, so that the current row is visible. */
function reveal() {
  canvas.style.height = `${Math.ceil(view.length / columns()) * HEIGHT}px`;
  const top = lineOf(at) * HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
  draw();
}

/** Goes to the first row that is not decided yet. */
function toUndecided() {
  const place = view.findIndex((item) => !decisions.has(item.row));
  at = place < 0 ? view.length - 1 : place;
  reveal();
}

function move(to) {
  forget();
  say("");
  at = Math.max(0, Math.min(to, view.length - 1));
  reveal();
}
