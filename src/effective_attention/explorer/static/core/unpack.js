// From text to numbers: base 85 → zlib → three planes of bytes → signed whole numbers. Written by packing.py.
import { header } from "./header.js";

/** @type {(text: string) => Promise<Whole>} */
export async function unpackNumbers(text) {
  return joinPlanes(await inflate(base85(text)));
}

/** @type {(text: string) => Uint8Array<ArrayBuffer>} */
function base85(text) {
  const digit = new Uint8Array(128);
  for (let i = 0; i < 85; i++) digit[header.alphabet.charCodeAt(i)] = i;
  const groups = Math.ceil(text.length / 5);
  const bytes = new Uint8Array(groups * 4);
  const missing = groups * 5 - text.length; // the last group may be short: filled up with the highest digit
  for (let group = 0; group < groups; group++) {
    let number = 0;
    for (let place = group * 5; place < group * 5 + 5; place++) {
      number = number * 85 + (place < text.length ? digit[text.charCodeAt(place)] : 84);
    }
    const start = group * 4;
    bytes[start] = number >>> 24;
    bytes[start + 1] = number >>> 16;
    bytes[start + 2] = number >>> 8;
    bytes[start + 3] = number;
  }
  return bytes.subarray(0, bytes.length - missing);
}

/** @type {(bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>} */
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Sixteen bits are enough for nearly every block: half the memory.
 *
 * @type {(bytes: Uint8Array) => Whole}
 */
function joinPlanes(bytes) {
  const count = bytes.length / 3;
  const numbers = new Int32Array(count);
  let most = 0;
  for (let i = 0; i < count; i++) {
    const coded = bytes[i] | (bytes[i + count] << 8) | (bytes[i + 2 * count] << 16);
    const value = (coded >>> 1) ^ -(coded & 1); // 0, 1, 2, 3 … stand for 0, −1, 1, −2 …
    numbers[i] = value;
    if (value > most) most = value;
    else if (-value > most) most = -value;
  }
  return most < 32768 ? Int16Array.from(numbers) : numbers;
}
