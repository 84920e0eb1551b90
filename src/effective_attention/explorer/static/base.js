// What every other file uses: the header, exact numbers, small helpers. Text reaches the page through textContent only.
const header = JSON.parse(document.getElementById("header").textContent);
const sides = header.sides;
const VIEWS = ["heads", "model", "heatmap", "neuron", "rollout"];
const PARTS = ["standard", "effective", "null", "difference"];
const MINUS = "\u2212";

function byId(id) {
  return document.getElementById(id);
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// A whole number of 10^-decimals as text, by moving the point: no number with a fraction is involved, so nothing drifts.
function exact(whole, decimals) {
  const digits = String(Math.abs(whole)).padStart(decimals + 1, "0");
  const sign = whole < 0 ? "-" : "";
  return decimals === 0 ? sign + digits : `${sign}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

function weightText(whole) {
  return exact(whole, header.decimals);
}

function shown(text) {
  return text.replaceAll("-", MINUS); // for numbers only: the minus sign is as wide as a digit
}

// Few digits, for legends and axes.
function brief(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3;
  return shown(value.toFixed(Math.min(digits, 20)));
}

function unit() {
  return 10 ** header.decimals;
}

function tokenLabel(token) {
  return token === "" ? "\u2205" : token.replace(/[\u0000-\u001f\u007f]/g, "\ufffd");
}

// What a side is called in words: its name, or its number.
function sideName(side) {
  return sides[side].name || (sides.length > 1 ? `side ${side + 1}` : "");
}

function largest(list) {
  return list.reduce((most, value) => Math.max(most, value), 0);
}

const layerCount = () => largest(sides.map((side) => side.layers));
const headCount = () => largest(sides.map((side) => side.heads));

// The newest entries of something that is costly to make; the oldest are forgotten beyond a total size.
class Kept {
  constructor(limit) {
    this.limit = limit;
    this.total = 0;
    this.entries = new Map();
  }

  get(key, makeEntry) {
    const found = this.entries.get(key);
    if (found !== undefined) {
      this.entries.delete(key);
      this.entries.set(key, found);
      return found.value;
    }
    const value = makeEntry();
    const size = value && value.byteLength !== undefined ? value.byteLength : 64;
    this.entries.set(key, { value, size });
    this.total += size;
    for (const [old, entry] of this.entries) {
      if (this.total <= this.limit || old === key) break;
      this.entries.delete(old);
      this.total -= entry.size;
    }
    return value;
  }
}
