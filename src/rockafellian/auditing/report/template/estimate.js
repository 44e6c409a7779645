/* What checked rows say about all rows: pure functions, without the page. */
const TAIL = 0.05; // in each tail of the 90 % interval

/** The logarithm of the gamma function, by the approximation of Lanczos (g = 7, nine terms). */
function logGamma(x) {
  const terms = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const sum = terms.reduce((total, term, i) => total + (i ? term / (x - 1 + i) : term), 0);
  const shifted = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(shifted) - shifted + Math.log(sum);
}

/** The continued fraction of the incomplete beta function, by Lentz's method. */
function betaFraction(x, a, b) {
  const away = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
  let c = 1;
  let d = 1 / away(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m < 10_000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const step of [even, odd]) {
      d = 1 / away(1 + step * d);
      c = away(1 + step / c);
      result *= c * d;
    }
    if (Math.abs(c * d - 1) < 1e-16) break;
  }
  return result;
}

/** The regularized incomplete beta function: P(X <= x) for X of Beta(a, b). */
function betaCdf(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(
    logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  return x < (a + 1) / (a + b + 2)
    ? (front * betaFraction(x, a, b)) / a
    : 1 - (front * betaFraction(1 - x, b, a)) / b;
}

/** The x with P(X <= x) = p for X of Beta(a, b), by bisection until the numbers end. */
function betaQuantile(p, a, b) {
  let [low, high] = [0, 1];
  for (let i = 0; i < 1100; i += 1) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (betaCdf(middle, a, b) < p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Sums `value` over a list. */
const total = (list, value) => list.reduce((sum, each) => sum + value(each), 0);

/** Counts the checked rows of each band: those at the head of the ranking, those drawn, and all. */
function countChecked(bandRows, sample, checked) {
  let [head, end] = [0, 0];
  while (checked.has(head)) head += 1;
  const bands = bandRows.map((rows) => {
    const first = end;
    end += rows;
    return { rows, first, end, wrong: 0, right: 0, drawn: 0, drawnWrong: 0, known: 0, knownWrong: 0, open: true };
  });
  for (const [place, wrong] of checked) {
    const band = bands.find((each) => place < each.end);
    if (wrong === null || !band) continue;
    band[wrong ? "wrong" : "right"] += 1;
    if (place < head) { band.known += 1; band.knownWrong += Number(wrong); }
  }
  for (const [place, number] of sample) {
    const band = bands[number];
    if (place < head || !band.open) continue;
    if (!checked.has(place)) band.open = false; // later ones may have been chosen for what they look like
    else if (checked.get(place) !== null) { band.drawn += 1; band.drawnWrong += Number(checked.get(place)); }
  }
  for (const band of bands) {
    const atHead = band.known ? Math.min(Math.max(head - band.first, 0), band.rows) : 0;
    band.rest = band.rows - atHead;
    band.headWrong = (atHead * band.knownWrong) / Math.max(band.known, 1);
  }
  return bands;
}

/** Of each band's rows behind the head: how many are expected to be wrong, and how far below and above it may be. */
function estimateRest(bands) {
  const known = bands.filter((band) => band.drawn);
  const weight = total(known, (band) => band.rest);
  const pooled = weight ? total(known, (band) => (band.rest * band.drawnWrong) / band.drawn) / weight : 0.5;
  for (const band of bands) {
    const [n, k] = [band.drawn, band.drawnWrong];
    const rate = n ? k / n : pooled;
    const low = k ? betaQuantile(TAIL, k, n - k + 1) : 0;
    const high = k < n ? betaQuantile(1 - TAIL, k + 0.5, n - k + 0.5) : 1;
    const part = n ? Math.sqrt(Math.max(band.rest - n, 0) / Math.max(band.rest - 1, 1)) : 1;
    band.expected = band.headWrong + band.rest * rate;
    band.below = band.rest * (rate - low) * part;
    band.above = band.rest * (high - rate) * part;
  }
}

/** The fraction of wrong labels and its interval, within what is already known. */
function bounded({ expected, below, above, wrong, right, rows }) {
  if (!rows) return { rate: 0, low: 0, high: 0 };
  const most = rows - right;
  const middle = Math.min(Math.max(expected, wrong), most);
  return { rate: middle / rows, low: Math.max(middle - below, wrong) / rows, high: Math.min(middle + above, most) / rows };
}

/**
 * The noise rate from decisions, as in review/estimate.py; places are those in the ranking, 0 for the worst.
 * bandRows: how many rows each band has, the worst first; sample: [[place, band], ...] in the order of the draw;
 * checked: [[place, whether the label is wrong, or null where a person could not tell], ...].
 */
function estimate(bandRows, sample, checked) {
  const bands = countChecked(bandRows, sample, new Map(checked));
  estimateRest(bands);
  const spread = (name) => Math.sqrt(total(bands.filter((band) => band.drawn), (band) => band[name] ** 2))
    + total(bands.filter((band) => !band.drawn), (band) => band[name]);
  const sums = Object.fromEntries(["expected", "wrong", "right", "rows"].map((name) => [name, total(bands, (band) => band[name])]));
  const whole = bounded({ ...sums, below: spread("below"), above: spread("above") });
  const { wrong: found, expected } = sums;
  return { ...whole, found, expected, bands: bands.map((band) => ({ ...band, ...bounded(band) })) };
}

globalThis.rockafellian = { estimate, betaCdf, betaQuantile };
