/* Decisions out of the page and into it: export, import, the commands that use them, and print. */
const FORMULA = /^\s*[\t\r\n=+\-@＝＋－＠]/;
const NUMBER = /^[+-]?[0-9]+(\.[0-9]+)?$/; // as in files.py
const MAX_PRINTED = 500;
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
  if (find("after")) find("after").hidden = false;
}

/** Copies the text of a command; where the browser forbids that, it is selected. */
async function copy({ target }) {
  const button = target.closest("[data-copy]");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  getSelection().selectAllChildren(code);
  try {
    await navigator.clipboard.writeText(code.textContent);
    say("Copied.");
  } catch { say("The command is selected: copy it with Ctrl+C."); }
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

/** A plain table of the listed rows, for paper. */
function printList() {
  const rows = view.slice(0, MAX_PRINTED).map((item) => {
    const decision = decisions.get(item.row)?.join(": ") ?? "";
    const quality = item.quality === null ? "" : short(item.quality);
    const texts = [item.id, item.given, item.suggested ?? "", quality, item.flagged ? "yes" : "no", decision];
    const shown = make("td", "", ...(item.image ? [image(item, "thumb")] : [excerpt(item)]));
    return make("tr", "", ...texts.map((text) => make("td", "", text)), shown);
  });
  const lines = [find("rate")?.textContent, `${find("progress").textContent}.`].filter(Boolean);
  find("printed").caption.textContent = lines.join(" ");
  find("printed").tBodies[0].replaceChildren(...rows);
}
