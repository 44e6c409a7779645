/* The current row: its content, its labels, and the choice of another label. */
const buttons = document.querySelectorAll("[data-do]");
const short = (number) => (number < 0.001 ? "<0.001" : String(Number(number.toPrecision(2))));
const percent = (fraction) => `${Math.round(100 * fraction)} %`;
const pairs = (item) =>
  data.columns.map((name, i) => [name, item.values?.[i] ?? null]).filter(([, value]) => value !== null);
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
  if (item.text !== null) parts.push(Object.assign(make("p", "text", item.text), { dir: "auto" }));
  if (item.values) {
    const cell = (tag, text) => make(tag, "", make("bdi", "", text));
    const entry = ([name, value]) => make("div", "", cell("dt", name), cell("dd", value));
    parts.push(make("dl", "", ...pairs(item).map(entry)));
  }
  return parts;
}

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
