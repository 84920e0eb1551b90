// When the page is drawn: at most once per frame, however many changes ask for it.

/** @type {{ asked: boolean, draw: (() => void) | null, isLoading: () => boolean, waiting: (() => void)[] }} */
const frame = { asked: false, draw: null, isLoading: () => false, waiting: [] };

/**
 * What draws the page, and whether numbers for it are still on their way.
 *
 * @type {(draw: () => void, isLoading: () => boolean) => void}
 */
export function drawWith(draw, isLoading) {
  Object.assign(frame, { draw, isLoading });
}

/** @type {() => void} */
export function redraw() {
  if (frame.asked) return;
  frame.asked = true;
  requestAnimationFrame(() => {
    frame.asked = false;
    frame.draw?.();
    if (!frame.asked && !frame.isLoading()) frame.waiting.splice(0).forEach((resolve) => resolve());
  });
}

/**
 * Wait until all is loaded and drawn.
 *
 * @type {() => Promise<void>}
 */
export function settled() {
  return new Promise((resolve) => {
    frame.waiting.push(resolve);
    redraw();
  });
}
