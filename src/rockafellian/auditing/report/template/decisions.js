/* The rows of the page and what a person decided about them; decisions survive a reload. */
const WORDS = ["keep", "relabel", "drop", "skip"];
const FIELDS = ["row", "id", "given", "suggested", "quality", "probability", "reason", "text", "image", "values", "flagged", "place", "decisive", "spans"];
const issues = data.issues.map((fields, index) =>
  Object.assign({ index, haystack: null }, Object.fromEntries(FIELDS.map((name, i) => [name, fields[i]]))));
const byRow = new Map(issues.map((item) => [item.row, item]));
const flagged = issues.filter((item) => item.flagged);
const several = (label) => (label === null ? [null] : data.multilabel ? label.split(data.separator) : [label]);
const count = (number) => number.toLocaleString("en");

let decisions = new Map(); // index of the row -> [word] or ["relabel", label]
let trail = []; // decisions since the last move by hand, for undo: lists of [item, what was before]

function known(row, word, label) {
  const item = byRow.get(row);
  if (!item || !WORDS.includes(word)) return null;
  if (word !== "relabel") return [word];
  if (typeof label !== "string") return null;
  const parts = data.multilabel ? several(label).filter((part) => part !== "") : [label];
  return label === item.suggested || parts.every((part) => data.classes.includes(part)) ? [word, label] : null;
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

function put(changes) {
  for (const [item, decision] of changes) {
    if (decision) decisions.set(item.row, decision);
    else decisions.delete(item.row);
  }
  save();
}

/** Decides about rows, in one step for undo. */
function record(changes) {
  trail.push(changes.map(([item]) => [item, decisions.get(item.row)]));
  put(changes);
}

function decide(word) {
  const item = view[at];
  if (!item) return;
  const label = word === "relabel" ? chosen(item) : undefined;
  if (label === null) return say("Choose another label first.");
  const wasDone = flagged.every(({ row }) => decisions.has(row));
  record([[item, word === "relabel" ? [word, label] : [word]]]);
  const isDone = !wasDone && flagged.every(({ row }) => decisions.has(row));
  say(isDone ? "All flagged rows are reviewed. Export your decisions, or go on with the rows below." : "");
  if (checking) afterCheck();
  if (checking || matcher()(item)) at += 1;
  else view.splice(at, 1); // the next row moves up
  at = Math.min(at, view.length - 1);
  reveal();
}

/** Undoes the last step; after a move, clears the decision of the current row. */
function undo() {
  const [item, last] = [view[at], trail.at(-1)];
  const other = last?.length > 1 && decisions.has(item?.row) && !last.some(([row]) => row === item);
  const changes = last && !other ? trail.pop() : [[item, undefined]];
  if (!changes[0][0]) return;
  put(changes);
  say(changes.length > 1 ? `Undone: ${count(changes.length)} rows are undecided again.` : "");
  refresh(changes[0][0]);
}

/** A move by hand ends what undo takes back, but not many decisions made at once. */
function forget() {
  if (!(trail.at(-1)?.length > 1)) trail = [];
}

/** The undecided rows with the labels of this one whose quality is not higher, this one included. */
function alike(item) {
  if (!item || item.suggested === null || decisions.has(item.row)) return [];
  return issues.filter((other) => other.given === item.given && other.suggested === item.suggested
    && !decisions.has(other.row) && (other === item || (other.quality ?? 2) <= (item.quality ?? -1)));
}

function acceptAlike() {
  const item = view[at];
  const rows = checking ? [] : alike(item);
  if (rows.length < 2) return say("No other undecided row has these labels and so low a quality.");
  const labels = [item.given, item.suggested].map((label) => `“${label}”`).join(" to ");
  const limit = item.quality === null ? "" : ` and a label quality ${item.quality < 0.001 ? "below 0.001" : `of at most ${short(item.quality)}`}`;
  ask(`Relabel ${count(rows.length)} rows from ${labels}?`,
    `These are all undecided rows with these labels${limit}. Undo takes them back together.`,
    `Relabel ${count(rows.length)} rows`, () => {
      record(rows.map((row) => [row, ["relabel", row.suggested]]));
      say(`Relabeled ${count(rows.length)} rows. U or Undo takes them back together.`);
      refresh(view.slice(at).find((row) => !decisions.has(row.row)) ?? item);
    });
}

/** Asks before many rows are decided at once. */
function ask(question, more, yes, then) {
  const dialog = find("ask");
  find("question").textContent = question;
  find("consequence").textContent = more;
  find("yes").textContent = yes;
  find("yes").onclick = () => { dialog.close(); then(); };
  find("no").onclick = () => dialog.close();
  dialog.onclose = () => list.focus({ preventScroll: true });
  dialog.showModal();
  find("yes").focus();
}

function drawProgress() {
  const counts = (rows) => Object.fromEntries(WORDS.map((word) =>
    [word, rows.filter((item) => decisions.get(item.row)?.[0] === word).length]));
  const [all, own] = [counts(issues), counts(flagged)];
  const done = WORDS.reduce((total, word) => total + own[word], 0);
  const others = decisions.size - done;
  const named = WORDS.filter((word) => word !== "skip" || all.skip).map((word) => `${count(all[word])} ${word}`);
  const head = flagged.length ? `${count(done)} of ${count(flagged.length)} flagged rows reviewed` : "No row is flagged";
  const more = others ? `${flagged.length ? " and" : ","} ${count(others)} not flagged${flagged.length ? "" : " reviewed"}` : "";
  find("progress").textContent = `${head}${more}${decisions.size ? `: ${named.join(", ")}` : ""}`;
  find("bar").setAttribute("aria-valuenow", done);
  WORDS.forEach((word, i) => { find("bar").children[i].style.width = `${(100 * own[word]) / (flagged.length || 1)}%`; });
}
