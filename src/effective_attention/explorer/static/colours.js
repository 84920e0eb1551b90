// Colours: blue is positive and orange negative, in every view; the scale of standard attention is the positive half of the signed
// one. Both halves grow steadily darker (on dark ground: lighter), so they survive grey print and colour blindness.
const THEMES = {
  light: {
    ground: "#ffffff", ink: "#18212b", soft: "#566270", faint: "#e4e8ed", accent: "#0b5cad", band: "#eef3f9", mark: "#111827",
    positive: ["#ffffff", "#dbe9f6", "#a3cbe6", "#5aa1d0", "#2371b4", "#0a3f7d", "#06234d"],
    negative: ["#ffffff", "#fee3c8", "#fdbd83", "#f58634", "#cf520c", "#8b3104", "#4f1a02"],
  },
  dark: {
    ground: "#131920", ink: "#e9edf2", soft: "#a9b4c0", faint: "#2a333d", accent: "#86bffb", band: "#1e2833", mark: "#ffffff",
    positive: ["#131920", "#143352", "#17548c", "#2b7fc9", "#62aef0", "#a9d5fc", "#eaf6ff"],
    negative: ["#131920", "#43260f", "#7b3c0c", "#bd5f12", "#ee9038", "#fcc586", "#fff0dc"],
  },
};
const ramps = new Map();
const headColours = new Map();

function darkNow() {
  return state.theme === "dark" || (state.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function themeNow() {
  return darkNow() ? THEMES.dark : THEMES.light;
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function hexOf(rgb) {
  return `#${rgb.map((part) => clamp(Math.round(part), 0, 255).toString(16).padStart(2, "0")).join("")}`;
}

// 256 steps between the given colours.
function ramp(stops) {
  if (!ramps.has(stops)) {
    const rgb = stops.map(channels);
    const steps = Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * (rgb.length - 1);
      const low = Math.min(Math.floor(place), rgb.length - 2);
      return rgb[low].map((part, channel) => part + (rgb[low + 1][channel] - part) * (place - low));
    });
    ramps.set(stops, steps);
  }
  return ramps.get(stops);
}

// From a whole number to one of 256 steps; 0 for 0.
function stepOf(size, limit) {
  const share = limit > 0 ? Math.min(size / limit, 1) : 0;
  return Math.round(255 * (state.root ? Math.sqrt(share) : share));
}

function cellColour(value, limit, theme) {
  return ramp(value < 0 ? theme.negative : theme.positive)[stepOf(Math.abs(value), limit)];
}

// A picture, one pixel per cell.
function bitmap(numbers, width, height, limit, theme, least = 0) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const [below, above] = [ramp(theme.negative), ramp(theme.positive)];
  for (let i = 0; i < width * height; i++) {
    const value = Math.abs(numbers[i]) < least ? 0 : numbers[i];
    const [red, green, blue] = (value < 0 ? below : above)[stepOf(Math.abs(value), limit)];
    image.data[4 * i] = red;
    image.data[4 * i + 1] = green;
    image.data[4 * i + 2] = blue;
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function oklch(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const [l, m, s] = [
    lightness + 0.3963377774 * a + 0.2158037573 * b,
    lightness - 0.1055613458 * a - 0.0638541728 * b,
    lightness - 0.0894841775 * a - 1.291485548 * b,
  ].map((part) => part ** 3);
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((part) => 255 * (part <= 0.0031308 ? 12.92 * Math.max(part, 0) : 1.055 * part ** (1 / 2.4) - 0.055));
}

// As many hues as heads, neighbours also of different lightness; the number on each chip tells what colour cannot.
function headColour(head, theme) {
  const key = `${head} ${theme.ground}`;
  if (!headColours.has(key)) headColours.set(key, newHeadColour(head, theme));
  return headColours.get(key);
}

function newHeadColour(head, theme) {
  const light = theme === THEMES.light;
  const hue = 0.45 + (2 * Math.PI * head) / headCount();
  const lightness = (light ? 0.55 : 0.74) + 0.08 * Math.cos(hue - 1.8) + (head % 2 ? 0.07 : -0.05); // yellow is light, blue dark
  return hexOf(oklch(lightness, light ? 0.16 : 0.14, hue));
}

function luminance(rgb) {
  const [red, green, blue] = rgb.map((part) => (part <= 10.3 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// Black or white, whichever can be read on this colour.
function textOn(hex) {
  return luminance(channels(hex)) > 0.179 ? "#000000" : "#ffffff";
}
