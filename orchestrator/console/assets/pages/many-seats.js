// What a page does with many seats, in parts: it reads their records, and sends commands for them.
import { useEffect, useRef, useState } from "../lib/ui.js";
import { command, get } from "../lib/api.js";
import { inParts, partsOf } from "../lib/many.js";
import { number } from "../lib/format.js";

/** Interval at which records are read again, in milliseconds: a sale that goes to another user changes no state. */
const AGAIN = 5000;
/** Interval at which the page looks whether a seat has changed, in milliseconds. */
const LOOK = 100;
/** The records of many seats are read at most this part of the time. */
const SHARE = 5;

/** @typedef {(said: string) => void} Told says how far an action is */

/**
 * Sends a command for seats, part by part. Gives the parts that were done.
 * @param {string[]} ids @param {string} done what the seats are then
 * @param {(part: string[]) => import("../lib/parts.js").Words} words @param {Told} told
 */
export async function forSeats(ids, done, words, told) {
  const parts = partsOf(ids);
  /** @param {number} count of parts */
  const seats = (count) => parts.slice(0, count).reduce((sum, part) => sum + part.length, 0);
  return inParts(parts, async (part) => ({ seats: part, reply: await command(...words(part)) }), told,
    (count) => `${number(seats(count))} of ${number(ids.length)} seats are ${done}`);
}

/** The records of seats, part by part, while they are `wanted`. @param {string} name @param {string[]} ids */
export async function recordsOf(name, ids, wanted = () => true) {
  const records = [];
  for (const part of partsOf(ids)) {
    if (!wanted()) return [];
    records.push(...(await get("show/seats", { key: name, seats: JSON.stringify(part) })));
  }
  return records;
}

/**
 * The latest records of the seats that are selected, by their ids. They are read when the selection or `mark` changes,
 * and again from time to time; those of before may be of other seats, and are left out. @param {string} name
 * @param {any[]} selected @param {string[]} ids of those that have something to read @param {string} mark
 * @returns {any[]}
 */
export function useRecords(name, selected, ids, mark) {
  const [records, set] = useState([]);
  const latest = useRef({ ids, mark });
  latest.current = { ids, mark };
  useEffect(() => {
    let live = true, timer;
    const read = async () => {
      const began = performance.now(), { ids, mark } = latest.current;
      try {
        const found = await recordsOf(name, ids, () => live);
        if (live) set(found);
      } catch {
        // The page says what is away, and the seats remain as they were read.
      }
      const took = performance.now() - began, ended = performance.now();
      const look = () => {
        const passed = performance.now() - ended;
        const isDue = !document.hidden && (passed > AGAIN || latest.current.mark !== mark);
        if (isDue && passed >= (SHARE - 1) * took) read();
        else timer = setTimeout(look, LOOK);
      };
      if (live) timer = setTimeout(look, LOOK);
    };
    read();
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [name, selected]);
  const wanted = new Set(ids);
  return records.filter((record) => wanted.has(record.id));
}
