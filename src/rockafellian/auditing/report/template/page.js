/* Shared by the whole page: its data and elements, the storage of the browser, the theme, and the matrix. */
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
let theme = stored.read("theme");

function showTheme() {
  const isDark = theme ? theme === "dark" : dark.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  find("theme").textContent = isDark ? "☀ Light theme" : "☾ Dark theme";
}

/** A click on a cell of the matrix lists its rows. */
function choosePair({ target }) {
  const cell = target.closest("[data-pair]");
  if (cell) dispatchEvent(new CustomEvent("pair", { detail: JSON.parse(cell.dataset.pair).map((i) => data.classes[i]) }));
}

find("theme").addEventListener("click", () => {
  theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  stored.write("theme", theme);
  showTheme();
});
dark.addEventListener("change", showTheme);
showTheme();
find("pairs")?.addEventListener("click", choosePair);
addEventListener("beforeprint", () => find("training")?.setAttribute("open", ""));
