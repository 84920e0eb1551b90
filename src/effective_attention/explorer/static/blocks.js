// Blocks of numbers: base 85 → zlib → three planes of bytes → signed whole numbers. Each is unpacked when first needed, once, and
// its text leaves the document.
const blocks = { ready: new Map(), coming: new Map(), failed: null };

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

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Sixteen bits are enough for nearly every block: half the memory.
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

async function unpack(id) {
  const element = byId(id);
  const text = element.textContent;
  element.remove();
  return joinPlanes(await inflate(base85(text)));
}

// The numbers of a block if they are there; undefined, and on their way, if not.
function block(id) {
  const found = blocks.ready.get(id);
  if (found === undefined && blocks.failed === null) fetchBlock(id);
  return found;
}

function fetchBlock(id) {
  if (!blocks.coming.has(id)) {
    const coming = unpack(id).then((numbers) => {
      blocks.ready.set(id, numbers);
      blocks.coming.delete(id);
      redraw();
      return numbers;
    });
    coming.catch((error) => {
      blocks.coming.delete(id);
      blocks.failed = `A block of this file cannot be unpacked (${error.message}): the file is damaged, or the browser too old.`;
      redraw();
    });
    blocks.coming.set(id, coming);
  }
  return blocks.coming.get(id);
}

// Which blocks a part of a layer is made of.
function blockIds(side, part, layer) {
  const of = sides[side].blocks;
  const standard = of.standard[layer];
  const effective = of.effective[layer] ?? standard;
  return { standard: [standard], effective: [effective], null: [standard, effective], difference: [standard, effective] }[part];
}

function layerReady(side, part, layer) {
  return blockIds(side, part, layer).map(block).every((numbers) => numbers !== undefined);
}

async function layerLoaded(side, part, layer) {
  await Promise.all(blockIds(side, part, layer).map((id) => blocks.ready.get(id) ?? fetchBlock(id)));
}
