// What is done with many things: in parts, one after the other. Each is a request of a size that the server takes.

/** Most seats of a part: a hold has no more, and one request for records neither. */
export const PART = 500;
/** Longest list of names in an address, in characters as they are sent. */
const LONGEST = 24000;

/** A list of names in parts. @param {string[]} names @returns {string[][]} */
export function partsOf(names) {
  const parts = [];
  let part = [], length = 0;
  for (const name of names) {
    const own = encodeURIComponent(name).length + 9;
    if (part.length === PART || (part.length && length + own > LONGEST)) {
      parts.push(part);
      [part, length] = [[], 0];
    }
    part.push(name);
    length += own;
  }
  if (part.length) parts.push(part);
  return parts;
}

/** A part of something was refused after others were done. */
export class Partly extends Error {
  /** @param {string} message @param {any} result of the parts that were done */
  constructor(message, result) {
    super(message);
    this.result = result;
  }
}

/**
 * Acts on parts, one after the other, and says how far it is. Stops at the first part that is refused.
 * @template T @template R
 * @param {T[]} parts @param {(part: T) => Promise<R>} act @param {(said: string) => void} told
 * @param {(count: number) => string} words what is done, for a number of parts
 * @returns {Promise<R[]>} what came of each part
 */
export async function inParts(parts, act, told, words) {
  const results = [];
  for (const part of parts) {
    if (parts.length > 1) told(words(results.length));
    try {
      results.push(await act(part));
    } catch (error) {
      if (!results.length) throw error;
      throw new Partly(`${words(results.length)}; then: ${error.message}`, results);
    }
  }
  return results;
}
