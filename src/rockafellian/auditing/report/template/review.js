/* The review: keys, clicks, and the start. */
const narrow = matchMedia("(max-width: 900px)");
const page = () => columns() * Math.max(1, Math.floor(list.clientHeight / HEIGHT) - 1);
const line = () => (checking ? 1 : columns());
const MOVES = {
  n: () => move(at + 1), p: () => move(at - 1), ArrowRight: () => move(at + 1), ArrowLeft: () => move(at - 1),
  ArrowDown: () => move(at + line()), ArrowUp: () => move(at - line()),
  Home: () => move(0), End: () => move(view.length - 1),
  PageDown: () => move(at + page()), PageUp: () => move(at - page()),
};
const DOES = { ...Object.fromEntries(WORDS.map((word) => [word, () => decide(word)])), undo };
const KEYS = new Map(Object.entries({
  ...MOVES, k: DOES.keep, r: DOES.relabel, d: DOES.drop, Delete: DOES.drop, s: DOES.skip, u: undo, a: acceptAlike,
  c: () => check(true), Escape: () => check(false), "/": () => filters.search.focus(),
}));
const WALKS = /^(Arrow|Page|Home$|End$|.$)/; // keys that change a closed select

let lastKey = "";

/** Keys decide only while the current row is visible, and keep their usual meaning elsewhere. */
function listens(target) {
  const { top, bottom } = find("detail").getBoundingClientRect();
  return bottom > 0 && top < innerHeight && (target === document.body || find("review").contains(target));
}

function toList() {
  (checking ? find("detail") : list).focus({ preventScroll: true });
}

/** Esc and Enter leave a field for the list. */
function leave(event) {
  if (event.key !== "Escape" && event.key !== "Enter") return;
  event.preventDefault();
  toList();
}

function press(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = KEYS.get(key);
  lastKey = event.altKey ? "" : event.key;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !listens(event.target)) return;
  const field = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (field) return leave(event);
  if (event.target.matches("[type=checkbox]") && event.key === "Enter") return leave(event);
  if (!act || (checking ? key === "/" : key === "Escape")) return;
  if (event.target.id === "content" && key.startsWith("Arrow")) return; // arrows scroll a long text there
  event.preventDefault();
  if (event.repeat && !(key in MOVES)) return;
  act();
  if (key !== "/") document.querySelector(".panes").scrollIntoView({ block: "nearest" });
}

/** After a choice by pointer or from an open select the keys decide again; arrows in a closed select go on choosing. */
function afterChoice({ target }) {
  if (target.id === "label" || find("label").contains(target)) nameChoice();
  if (target.matches("select") && !WALKS.test(lastKey)) toList();
}

function listenToFilters() {
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  find("filters").addEventListener("input", () => { forget(); refresh(); });
  find("reset").addEventListener("click", () => { find("filters").reset(); refresh(); list.focus(); });
  find("more").addEventListener("click", () => {
    const open = find("filters").classList.toggle("open");
    find("more").setAttribute("aria-expanded", open);
  });
}

function listenToFiles() {
  find("export").addEventListener("click", download);
  find("after")?.addEventListener("click", copy);
  find("import").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", async ({ target }) => {
    if (target.files[0]) read((await target.files[0].text()).replace(/^\uFEFF/, ""));
    target.value = "";
  });
  addEventListener("beforeprint", printList);
  addEventListener("storage", (event) => {
    if (event.key === PREFIX + data.key) { recall(); refresh(); }
  });
}

function listen() {
  document.addEventListener("keydown", press);
  document.addEventListener("pointerdown", () => { lastKey = ""; });
  addEventListener("pair", (event) => choose(event.detail));
  list.addEventListener("scroll", drawList, { passive: true });
  new ResizeObserver(() => { if (!checking) drawList(); }).observe(list);
  canvas.addEventListener("click", (event) => {
    const node = event.target.closest(".item");
    if (!node) return;
    move(Number(node.dataset.place));
    if (narrow.matches) find("detail").scrollIntoView();
  });
  for (const button of buttons) button.addEventListener("click", DOES[button.dataset.do]);
  find("previous").addEventListener("click", MOVES.p);
  find("next").addEventListener("click", MOVES.n);
  find("review").addEventListener("change", afterChoice);
  find("alike").addEventListener("click", acceptAlike);
  find("begin")?.addEventListener("click", () => check(true));
  find("stop")?.addEventListener("click", () => check(false));
  listenToFilters();
  listenToFiles();
}

list.style.setProperty("--row", `${HEIGHT}px`);
recall();
save();
fillFilters();
fillChoice();
listen();
refresh();
toUndecided();
list.focus({ preventScroll: true });
