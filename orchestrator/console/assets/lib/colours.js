// The colours of the style sheet, for what is drawn on a canvas.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** A colour of the style sheet. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Calls `change` when the colours change, with the colour scheme.
 * @param {() => void} change
 * @returns {() => void} ends it
 */
export function onColours(change) {
  dark.addEventListener("change", change);
  return () => dark.removeEventListener("change", change);
}
