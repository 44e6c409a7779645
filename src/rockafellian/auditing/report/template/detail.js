/* The current row: its content, its labels, and the choice of another label. */
const buttons = document.querySelectorAll("[data-do]");
const short = (number) => (number < 0.001 ? "<0.001" : String(Number(number.toPrecision(2))));
const percent = (fraction) => `${Math.round(100 * fraction)} %`;
const pairs = (item) => (item.values ?? []).map(([column, value]) => [data.columns[column], value]);
const OPEN = 8; // columns of a row that are not folded away
let unfolded = false;
let saying = 0;

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
  arrow.setAttribute("aria-label", "suggested label");
  const none = item.suggested === null;
  const suggested = none ? [make("span", "none", "no suggestion")] : chips(item.suggested, "suggested");
  return [...chips(item.given, "given"), arrow, ...suggested];
}

function image(item, className) {
  const picture = make("img", className);
  picture.alt = `Row ${item.id}`;
  picture.addEventListener("load", () => picture.classList.toggle("tiny", picture.naturalWidth <= 64));
  picture.src = item.image;
  return picture;
}

/** A long decimal number in four digits, for the list; anything else as it is. */
const brief = (value) => (/^-?\d+\.\d{5,}$/.test(value) ? String(Number(Number(value).toPrecision(4))) : value);

function excerpt(item) {
  const word = ([name, value]) => (item.image ? value : `${name} ${brief(value)}`);
  const text = item.text ?? pairs(item).map(word).join("  ·  ");
  return text.slice(0, 240) || item.id;
}

function contents(item) {
  const parts = [];
  if (item.image) parts.push(image(item, "picture"));
  if (item.text !== null) parts.push(...text(item));
  if (item.values) parts.push(...values(item));
  return parts;
}

/** The decisive words, and the text with these marked. */
function text(item) {
  const words = item.decisive.map((word) => make("mark", "", make("bdi", "", word)));
  const letters = [...item.text];
  const parts = [];
  let end = 0;
  for (const [start, next] of item.spans) {
    if (start < end || start >= letters.length) continue;
    parts.push(letters.slice(end, start).join(""), make("mark", "", letters.slice(start, next).join("")));
    end = next;
  }
  parts.push(letters.slice(end).join(""));
  const whole = Object.assign(make("p", "text", ...parts), { dir: "auto" });
  return words.length ? [make("p", "words", ...words), whole, why()] : [whole];
}

/** The columns, decisive ones first; of many, those that follow are folded away. */
function values(item) {
  const cell = (tag, text) => make(tag, "", make("bdi", "", text));
  const entry = ([name, value]) => make("div", "", cell("dt", name), cell("dd", value));
  const entries = pairs(item).map(entry);
  const first = item.text === null && !item.image ? item.decisive.length : 0;
  for (const one of entries.slice(0, first)) one.className = "decisive";
  const open = entries.length > OPEN + 1 ? OPEN : entries.length;
  const parts = [make("dl", "", ...entries.slice(0, open))];
  if (first) parts.push(why());
  if (open < entries.length) parts.push(folded(entries.slice(open)));
  return parts;
}

function folded(entries) {
  const whole = make("details", "", make("summary", "", `${count(entries.length)} more columns`), make("dl", "", ...entries));
  whole.open = unfolded;
  whole.addEventListener("toggle", () => { unfolded = whole.open; });
  return whole;
}

/** What decisive means, in a sentence. */
const why = () => make("p", "why", data.why);

/** The numbers of a row that tell it from others: not a quality of almost 0, nor a prediction of almost 100 %. */
function numbers(item) {
  const found = [];
  if (item.quality !== null && item.quality >= 0.001) found.push(`Label quality ${short(item.quality)}`);
  if (item.suggested !== null && item.probability !== null && item.probability < 0.995) {
    found.push(`suggested with ${percent(item.probability)}`);
  }
  return found;
}

function drawDetail() {
  const item = view[at];
  find("detail").classList.toggle("blank", !item);
  if (!item) return;
  find("name").textContent = item.id === String(item.row) ? `Row ${item.row}` : `${item.id} (row ${item.row})`;
  find("place").textContent = `${count(at + 1)} of ${count(checking && at < TARGET ? Math.min(TARGET, view.length) : view.length)}`;
  find("content").replaceChildren(...contents(item));
  find("content").scrollTop = 0;
  find("labels").replaceChildren(...change(item));
  find("numbers").replaceChildren(...(checking ? [] : numbers(item).map((text) => make("span", "", text))));
  find("reason").textContent = checking ? "Is the given label right?" : item.reason;
  find("unflagged").hidden = checking || item.flagged;
  badge(find("verdict"), item);
  drawChoice(item);
}

/** The choice of a label: one of all, or any of them where a row may have several. */
function fillChoice() {
  const place = find("label");
  if (data.multilabel) {
    place.append(...data.classes.map((name, i) => {
      const box = Object.assign(make("input"), { type: "checkbox", value: i });
      return make("label", "", box, make("bdi", "", name));
    }));
  } else {
    place.append(new Option("choose a label", ""), ...data.classes.map((name, i) => new Option(name, i)));
  }
}

const boxes = () => [...find("label").querySelectorAll("input")];

/** The label to give instead, or null if there is none yet. */
function chosen(item) {
  if (data.multilabel) {
    const wanted = boxes().filter((box) => box.checked).map((box) => data.classes[box.value]);
    const same = (label) => label !== null && [...several(label)].filter(Boolean).sort().join("\n") === [...wanted].sort().join("\n");
    if (same(item.given)) return null;
    return same(item.suggested) ? item.suggested : wanted.join(data.separator);
  }
  const label = data.classes[find("label").value] ?? null;
  return label === item.given ? null : label;
}

function drawChoice(item) {
  const decision = decisions.get(item.row);
  const label = decision?.[1] ?? item.suggested;
  if (data.multilabel) {
    const now = several(label ?? item.given);
    for (const box of boxes()) box.checked = now.includes(data.classes[box.value]);
  } else {
    const place = label === null ? -1 : data.classes.indexOf(label);
    data.classes.forEach((other, i) => { find("label").options[i + 1].disabled = other === item.given; });
    find("label").value = place < 0 ? "" : place;
  }
  for (const button of buttons) {
    if (WORDS.includes(button.dataset.do)) button.setAttribute("aria-pressed", button.dataset.do === decision?.[0]);
  }
  const same = checking ? 0 : alike(item).length;
  find("alike").classList.toggle("absent", same < 2);
  find("alike").firstChild.textContent = `Relabel all ${count(same)} like this `;
  nameChoice();
}

function nameChoice() {
  const label = view[at] ? chosen(view[at]) : null;
  const button = document.querySelector("[data-do=relabel]");
  button.setAttribute("aria-label", label === null ? "Relabel" : `Relabel to ${label === "" ? "no label" : label}`);
  button.setAttribute("aria-disabled", label === null);
}
