// A memory of things that are costly to make: beyond a total size, the ones unused for longest are forgotten.
const SMALL_ENTRY = 64; // bytes, of what does not say its size

/** @type {LimitedCache<any>[]} */
const made = [];

/**
 * Once other sides are shown, nothing that was made of the ones before holds any more.
 *
 * @type {() => void}
 */
export function forgetAll() {
  for (const cache of made) {
    cache.entries.clear();
    cache.total = 0;
  }
}

/** @template Value */
export class LimitedCache {
  /** @param {number} limit in bytes */
  constructor(limit) {
    this.limit = limit;
    this.total = 0;
    /** @type {Map<string, { value: Value, size: number }>} */
    this.entries = new Map();
    made.push(this);
  }

  /** @type {(key: string) => boolean} */
  has(key) {
    return this.entries.has(key);
  }

  /** @type {(key: string, makeValue: () => Value) => Value} */
  get(key, makeValue) {
    const found = this.entries.get(key);
    if (found !== undefined) {
      this.entries.delete(key); // and in again, as the newest
      this.entries.set(key, found);
      return found.value;
    }
    const value = makeValue();
    const size = /** @type {any} */ (value)?.byteLength ?? SMALL_ENTRY;
    this.entries.set(key, { value, size });
    this.total += size;
    this.forgetOldest(key);
    return value;
  }

  /** @type {(newest: string) => void} */
  forgetOldest(newest) {
    for (const [key, { size }] of this.entries) {
      if (this.total <= this.limit || key === newest) break;
      this.entries.delete(key);
      this.total -= size;
    }
  }
}
