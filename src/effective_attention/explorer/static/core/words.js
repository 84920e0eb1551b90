// Tokens joined to words: to a word goes the sum over its pieces, from a word the mean over its pieces. That is the
// rule of analyses/common/words.py; tests/explorer/test_words.py compares with a loop in Python.

/**
 * The places of each word's pieces, which stand side by side; without words each token is one.
 *
 * @type {(tokens: Tokens) => number[][]}
 */
function piecesOf({ words, size }) {
  const starts = words?.starts ?? Array.from({ length: size }, (_, place) => place);
  return starts.map((start, word) => {
    const end = starts[word + 1] ?? size;
    return Array.from({ length: end - start }, (_, piece) => start + piece);
  });
}

/** @type {(tokens: Tokens, pieces: number[][]) => Tokens} */
function joinedTokens({ words, tokens, special }, pieces) {
  const names = words?.tokens ?? tokens;
  return { tokens: names, special: pieces.map(([first]) => special[first]), size: pieces.length, words };
}

/** @type {(side: Side) => Side} */
export function joinedToWords(side) {
  const queries = piecesOf(side);
  const keys = side.keys === null ? queries : piecesOf(side.keys);
  return {
    ...side,
    ...joinedTokens(side, queries),
    segments: queries.map(([first]) => side.segments[first]),
    keys: side.keys === null ? null : joinedTokens(side.keys, keys),
    joined: { side, queries, keys },
  };
}

/**
 * A matrix between tokens as one between words; rounded once, halves away from 0.
 *
 * @type {(numbers: Whole, width: number, joined: Joined) => Int32Array}
 */
export function joinedMatrix(numbers, width, { queries, keys }) {
  const result = new Int32Array(queries.length * keys.length);
  queries.forEach((from, row) => keys.forEach((to, column) => {
    let total = 0;
    for (const query of from) for (const key of to) total += numbers[query * width + key];
    result[row * keys.length + column] = Math.sign(total) * Math.round(Math.abs(total) / from.length);
  }));
  return result;
}

/**
 * Where a token is after a change from pieces to words, or back: its word, or that word's first piece.
 *
 * @type {(token: number | null, before: number[][] | null, after: number[][] | null) => number | null}
 */
export function atOtherLevel(token, before, after) {
  if (token === null) return null;
  const piece = before === null ? token : before[token]?.[0] ?? -1;
  if (after === null) return piece < 0 ? null : piece;
  const word = after.findIndex((pieces) => pieces.includes(piece));
  return word < 0 ? null : word;
}
