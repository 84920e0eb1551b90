// Blocks of numbers: each is unpacked when first needed, once, and its text leaves the document.
import { byId } from "./elements.js";
import { sides } from "./header.js";
import { redraw } from "./redraw.js";
import { unpackNumbers } from "./unpack.js";

/** @type {Map<string, Whole>} */
const loaded = new Map();
/** @type {Map<string, Promise<Whole>>} */
const loading = new Map();
/** @type {{ failure: string | null }} */
const trouble = { failure: null };

/** @type {() => number} */
export const loadingCount = () => loading.size;

/**
 * Why no more numbers come, in words; null: all is well.
 *
 * @type {() => string | null}
 */
export const loadingFailure = () => trouble.failure;

/** @type {(id: string) => boolean} */
export const isLoaded = (id) => loaded.has(id);

/**
 * The numbers of a block that is known to be loaded.
 *
 * @type {(id: string) => Whole}
 */
export function loadedBlock(id) {
  const numbers = loaded.get(id);
  if (numbers === undefined) throw new Error(`block ${id} is used before it is loaded`);
  return numbers;
}

/**
 * Whether the numbers of a block are there; if not, they are on their way from now on.
 *
 * @type {(id: string) => boolean}
 */
export function blockReady(id) {
  if (!loaded.has(id) && trouble.failure === null) load(id);
  return loaded.has(id);
}

/** @type {(id: string) => Promise<Whole>} */
function load(id) {
  const known = loading.get(id);
  if (known !== undefined) return known;
  const coming = unpack(id);
  loading.set(id, coming);
  coming.catch((error) => {
    const why = `(${error.message}): the file is damaged, or the browser too old.`;
    trouble.failure = `A block of this file cannot be unpacked ${why}`;
  }).finally(() => {
    loading.delete(id);
    redraw();
  });
  return coming;
}

/** @type {(id: string) => Promise<Whole>} */
async function unpack(id) {
  const element = byId(id);
  const text = element.textContent;
  element.remove();
  const numbers = await unpackNumbers(text);
  loaded.set(id, numbers);
  return numbers;
}

/**
 * Which blocks a part of a layer is made of.
 *
 * @type {(side: number, part: Attention, layer: number) => string[]}
 */
export function blockIds(side, part, layer) {
  const { blocks } = sides[side];
  const standard = blocks.standard[layer];
  if (part === "null" || part === "difference") return [standard, blocks.effective[layer] ?? standard];
  return [blocks[part]?.[layer] ?? standard];
}

/** @type {(side: number, part: Attention, layer: number) => boolean} */
export function layerReady(side, part, layer) {
  return blockIds(side, part, layer).map(blockReady).every(Boolean);
}

/** @type {(side: number, part: Attention, layer: number) => Promise<void>} */
export async function layerLoaded(side, part, layer) {
  await Promise.all(blockIds(side, part, layer).map((id) => loaded.get(id) ?? load(id)));
}
