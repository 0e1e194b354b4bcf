// Elements and texts. Everything from a file is text: nothing here takes markup.

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufeff\u2028\u2029]/g;
const SVG = "http://www.w3.org/2000/svg";

/** Creates an element. `style` is a map of properties, `on…` are listeners, `null` is left out. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Creates an element of SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [property, css] of Object.entries(value)) node.style.setProperty(property, css);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Makes characters visible that a browser would interpret, and cuts a long text. */
export function visible(text, max = 400) {
  const whole = String(text);
  const start = whole.length > max ? whole.slice(0, max).replace(/[\ud800-\udbff]$/, "") + "…" : whole;
  return start.replace(BIDI, codePoint).replace(CONTROL, codePoint);
}

/** The same in one line. */
export function oneLine(text, max = 400) {
  return visible(String(text).slice(0, max * 4).replace(/\s+/g, " ").trim(), max);
}

function codePoint(character) {
  return `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** A number with thin spaces between thousands. */
export function count(number) {
  if (typeof number !== "number" || !Number.isFinite(number)) return "–";
  const [whole, rest] = String(Math.abs(number)).split(".");
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  return (number < 0 ? "−" : "") + grouped + (rest ? `.${rest}` : "");
}

/** `1 item`, `2 items`. */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function percent(part, whole) {
  if (!(whole > 0)) return "0 %";
  const share = (part / whole) * 100;
  return `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

/** A score: as many digits as tell scores apart. */
export function score(number) {
  if (typeof number !== "number" || !Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size !== 0 && (size < 0.0001 || size >= 1e12)) return number.toExponential(2);
  return size >= 1000 ? count(Math.round(number)) : number.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 4);
}

/** A reason without its name, which is next to it. */
export function withoutName(text, name) {
  const plain = text.startsWith(`${name}: `) ? text.slice(name.length + 2) : text;
  return plain.replace(/\d{5,}/g, (digits) => count(Number(digits)));
}

/** `BudgetExceeded` as words. */
export function words(name) {
  const text = String(name).replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Calls at most once per frame. */
export function perFrame(callback) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      callback();
    });
  };
}
