/* Checking drawn rows to measure the noise rate: which rows, which of their decisions count, and what they say. */
const TARGET = 30;
const HARDLY = 0.05; // wrong labels among the undecided rows of a band below which reviewing it is hardly worth it
const bandRows = data.sample?.bands ?? [];
const drawn = (data.sample?.drawn ?? []).map(([row, band]) => ({ item: byRow.get(row), band }));
const target = Math.min(TARGET, drawn.length);
const isWrong = (word) => word === "relabel" || word === "drop";
let checking = false;

function bandName(number) {
  const words = ["worst", ...bandRows.slice(2).map(() => "next"), "other"];
  return `${bandRows.length === 1 ? "all" : words[number]} ${count(bandRows[number])}`;
}

/** What the decisions so far say about all rows, and whether they say it of every band. */
function measure() {
  const checked = issues.filter((item) => item.place !== null && decisions.has(item.row)).map((item) => {
    const [word] = decisions.get(item.row);
    return [item.place, word === "skip" ? null : isWrong(word)];
  });
  const decided = checked.filter(([, wrong]) => wrong !== null).length;
  const sample = drawn.map(({ item, band }) => [item.place, band]);
  const found = estimate(bandRows, sample, checked);
  return { decided, ready: found.bands.every((band) => band.drawn || !band.rest), ...found };
}

/** A fraction in percent, with a digit more where it is small. */
const rate = (fraction) => `${(100 * fraction).toFixed(fraction > 0 && fraction < 0.0995 ? 1 : 0)} %`;
const interval = ({ low, high }) => `${rate(low)} to ${rate(high)}`;

function errors({ found, expected }) {
  const more = count(Math.round(Math.max(expected - found, 0)));
  return `${count(found)} ${found === 1 ? "error" : "errors"} found, about ${more} more expected.`;
}

/** How many rows are left to check, then where to go on with the list, or that it is hardly worth it. */
function advice(bands) {
  const left = drawn.slice(0, target).filter(({ item }) => !decisions.has(item.row)).length;
  if (left) return `${count(left)} more to check.`;
  const open = bands.map((band, number) => ({ number, left: band.rows - band.wrong - band.right, ...band }))
    .filter((band) => band.left > 0)
    .map((band) => ({ ...band, share: Math.max(band.expected - band.wrong, 0) / band.left }));
  const [best] = open.sort((a, b) => b.share - a.share);
  if (!best) return "All rows are decided.";
  if (best.share < HARDLY) return "Going on is hardly worth it: in every band, fewer than 1 in 20 undecided labels should be wrong.";
  return `Go on with the ${bandName(best.number)}: about ${percent(best.share)} of their undecided labels should be wrong.`;
}

function drawMeasured() {
  if (!drawn.length) return;
  const now = measure();
  find("rate").textContent = now.ready
    ? `Noise rate ${rate(now.rate)} (90 % interval ${interval(now)}) from ${count(now.decided)} checked rows. ${errors(now)}` : "";
  find("begin").firstChild.textContent = drawn.some(({ item }) => decisions.has(item.row)) ? "Go on checking" : `Check ${target} rows`;
  if (!checking) return;
  find("measured-rate").textContent = now.ready ? rate(now.rate) : "–";
  find("measured-interval").textContent = now.ready ? `90 % interval ${interval(now)}` : "as soon as a row of each band is checked";
  find("span").style.left = `${100 * now.low}%`;
  find("span").style.width = `${100 * (now.high - now.low)}%`;
  find("point").style.left = `${100 * now.rate}%`;
  find("point").hidden = !now.ready;
  find("still").textContent = `${now.ready ? `${errors(now)} ` : ""}${advice(now.bands)}`;
  find("bands").replaceChildren(...now.bands.map(bandLine));
}

function bandLine(band, number) {
  const decided = band.wrong + band.right;
  const known = band.drawn || !band.rest;
  const name = Object.assign(make("th", "", bandName(number)), { scope: "row" });
  const cells = [`${count(band.wrong)} of ${count(decided)}`, known ? rate(band.rate) : "–"];
  return make("tr", "", name, ...cells.map((text) => make("td", "", text)), make("td", "", known ? interval(band) : ""));
}

function afterCheck() {
  const left = drawn.slice(0, target).filter(({ item }) => !decisions.has(item.row)).length;
  if (at === target - 1 && !left) {
    say(target < drawn.length ? "These rows are checked. Go on for a narrower interval, or Esc for the list." : "All drawn rows are checked. Esc for the list.");
  }
}

/** Starts or ends the check; the drawn rows take the place of the list meanwhile. */
function check(on) {
  if (on === checking || (on && !drawn.length)) return;
  checking = on;
  trail = [];
  document.body.classList.toggle("checking", on);
  find("begin").hidden = on;
  find("stop").hidden = !on;
  say("");
  refresh();
  toUndecided();
  if (on) {
    find("detail").focus({ preventScroll: true });
    if (narrow.matches) find("detail").scrollIntoView();
  } else list.focus({ preventScroll: true });
}
