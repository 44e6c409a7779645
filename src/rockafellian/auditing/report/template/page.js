/* Shared by the whole page: its data and elements, the storage of the browser, the theme, and the charts. */
const data = JSON.parse(document.getElementById("data").textContent);
const PREFIX = "rockafellian:";
const find = (id) => document.getElementById(id);

/** An element with children; strings become text, never markup. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

const stored = {
  read(name) {
    try { return localStorage.getItem(PREFIX + name); } catch { return null; }
  },
  write(name, text) {
    try { localStorage.setItem(PREFIX + name, text); return true; } catch { return false; }
  },
};

const dark = matchMedia("(prefers-color-scheme: dark)");
let drawn = false;
let theme = stored.read("theme");

function showTheme() {
  const isDark = theme ? theme === "dark" : dark.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  find("theme").textContent = isDark ? "☀ Light theme" : "☾ Dark theme";
  if (drawn) drawCharts();
}

/** A copy of a figure with the current colors of style.css in place of `var(--name)`. */
function colored(value) {
  if (Array.isArray(value)) return value.map(colored);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, colored(part)]));
  }
  const variable = typeof value === "string" && /^var\((--[a-z-]+)\)$/.exec(value);
  if (!variable) return value;
  const probe = document.body.appendChild(make("i"));
  probe.style.color = value;
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

function loadPlotly() {
  if (!window.Plotly) document.head.append(make("script", "", find("plotly").textContent));
}

/** Draws one chart after the other, so that the page reacts to keys in between. */
async function drawCharts() {
  drawn = true;
  loadPlotly();
  for (const [name, figure] of Object.entries(data.figures)) {
    await new Promise((done) => setTimeout(done));
    const place = find(`chart-${name}`);
    const isNew = !place.data;
    const { data: traces, layout } = colored(figure);
    Plotly.react(place, traces, layout, { displayModeBar: false, responsive: true });
    if (isNew && name === "pairs") place.on("plotly_click", choosePair);
  }
}

function choosePair(event) {
  const { x, y } = event.points[0];
  dispatchEvent(new CustomEvent("pair", { detail: [data.shown[y], data.shown[x]] }));
}

/** Plotly is most of the file: it is loaded when the charts come into view. */
function watchCharts() {
  const charts = find("charts");
  if (!charts) return;
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    drawCharts();
  });
  seen.observe(charts);
}

find("theme").addEventListener("click", () => {
  theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  stored.write("theme", theme);
  showTheme();
});
dark.addEventListener("change", showTheme);
showTheme();
addEventListener("DOMContentLoaded", watchCharts);
