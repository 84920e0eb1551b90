// From a weight, or from a head's number, to a colour.
import { headCount } from "./header.js";
import { clamp } from "./numbers.js";
import { state } from "./state.js";
import { THEMES } from "./themes.js";

/** @type {Map<string[], Rgb[]>} */
const ramps = new Map();
/** @type {Map<string, string>} */
const headColours = new Map();

/** @type {(hex: string) => Rgb} */
function channels(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return [red, green, blue];
}

/** @type {(rgb: number[]) => string} */
function hexOf(rgb) {
  return `#${rgb.map((part) => clamp(Math.round(part), 0, 255).toString(16).padStart(2, "0")).join("")}`;
}

/** @type {(first: Rgb, second: Rgb, share: number) => Rgb} */
function between(first, second, share) {
  const [red, green, blue] = first.map((part, channel) => part + (second[channel] - part) * share);
  return [red, green, blue];
}

/**
 * 256 steps between the given colours.
 *
 * @type {(stops: string[]) => Rgb[]}
 */
function ramp(stops) {
  const known = ramps.get(stops);
  if (known !== undefined) return known;
  const rgb = stops.map(channels);
  const steps = Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (rgb.length - 1);
    const low = Math.min(Math.floor(place), rgb.length - 2);
    return between(rgb[low], rgb[low + 1], place - low);
  });
  ramps.set(stops, steps);
  return steps;
}

/**
 * A step, from 0 to 255, of the scale on the value's side of 0.
 *
 * @type {(value: number, step: number, theme: Theme) => string}
 */
export function scaleColour(value, step, theme) {
  return hexOf(ramp(value < 0 ? theme.negative : theme.positive)[step]);
}

/**
 * From a weight to one of the 256 steps; 0 for 0.
 *
 * @type {(value: number, limit: number) => number}
 */
function stepOf(value, limit) {
  const share = limit > 0 ? Math.min(Math.abs(value) / limit, 1) : 0;
  return Math.round(255 * (state.root ? Math.sqrt(share) : share));
}

/** @type {(value: number, limit: number, theme: Theme) => string} */
export function cellColour(value, limit, theme) {
  return scaleColour(value, stepOf(value, limit), theme);
}

/**
 * One pixel per number, as a canvas wants them: red, green, blue, opacity. Those smaller than the least count as 0.
 *
 * @type {(numbers: Whole, limit: number, least: number, theme: Theme, pixels: Uint8ClampedArray) => void}
 */
export function fillPixels(numbers, limit, least, theme, pixels) {
  const [below, above] = [ramp(theme.negative), ramp(theme.positive)];
  for (let i = 0; i < numbers.length; i++) {
    const value = Math.abs(numbers[i]) < least ? 0 : numbers[i];
    const [red, green, blue] = (value < 0 ? below : above)[stepOf(value, limit)];
    pixels[4 * i] = red;
    pixels[4 * i + 1] = green;
    pixels[4 * i + 2] = blue;
    pixels[4 * i + 3] = 255;
  }
}

/** @type {(lightness: number, chroma: number, hue: number) => number[]} */
function fromOklch(lightness, chroma, hue) {
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

/**
 * As many hues as heads, neighbours also of different lightness; the number on each chip tells what colour cannot.
 *
 * @type {(head: number, theme: Theme) => string}
 */
export function headColour(head, theme) {
  const key = `${head} ${theme.ground}`;
  const colour = headColours.get(key) ?? newHeadColour(head, theme);
  headColours.set(key, colour);
  return colour;
}

/** @type {(head: number, theme: Theme) => string} */
function newHeadColour(head, theme) {
  const light = theme === THEMES.light;
  const hue = 0.45 + (2 * Math.PI * head) / headCount();
  const even = 0.08 * Math.cos(hue - 1.8); // yellow is light, blue dark
  const lightness = (light ? 0.55 : 0.74) + even + (head % 2 ? 0.07 : -0.05);
  return hexOf(fromOklch(lightness, light ? 0.16 : 0.14, hue));
}

/** @type {(rgb: Rgb) => number} */
function luminance(rgb) {
  const [red, green, blue] = rgb.map((part) => (part <= 10.3 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/**
 * Black or white, whichever can be read on this colour.
 *
 * @type {(hex: string) => string}
 */
export function textOn(hex) {
  return luminance(channels(hex)) > 0.179 ? "#000000" : "#ffffff";
}
