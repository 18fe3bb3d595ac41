// Live values of a page.
import { useCallback, useEffect, useRef, useState } from "./ui.js";
import { listen } from "./api.js";

/** Before the first message. */
const NOTHING = { state: null, trouble: null, at: 0, partitions: { items: [], more: false }, failures: {},
  numbers: null, switches: { items: [], more: false }, losses: {}, alerts: [] };

/**
 * Why values are old: a code and a message as of the API, or the code `console-away`; and since when, in milliseconds
 * since 1970, if that is known. @typedef {{code: string, message: string, since: number | null}} TroubleOf
 *
 * The latest state of a key, of the overview, of compaction or of the list of keys.
 * @param {string | null} key
 * @returns {{state: any, trouble: TroubleOf | null, at: number, partitions: {items: any[], more: boolean}, failures:
 *   Record<string, any[]>,
 *           numbers: {free: any[], resting: any[], more: boolean, listed: number, examined: number} | null,
 *           switches: {items: any[], more: boolean}, losses: Record<string, any>,
 *           alerts: {rule: string, since: number, value: number}[]}} `partitions`, and `failures` by task, are those
 *          of compaction; `numbers` are those of a pool without a call, null if they may not be read; `losses` are
 *          those of a realm, by unit; `alerts` come with the list of keys
 */
export function useLive(key) {
  const [live, setLive] = useState(NOTHING);
  useEffect(() => {
    setLive(NOTHING);
    if (!key) return undefined;
    return listen(key, {
      state: (state) => setLive((old) => ({ ...old, state, at: performance.now() })),
      partitions: (partitions) => setLive((old) => ({ ...old, partitions })),
      "partition-changes": (changes) => setLive((old) => ({ ...old, partitions: changed(old.partitions, changes) })),
      failures: (failures) => setLive((old) => ({ ...old, failures })),
      numbers: (numbers) => setLive((old) => ({ ...old, numbers })),
      switches: (switches) => setLive((old) => ({ ...old, switches })),
      alerts: (alerts) => setLive((old) => ({ ...old, alerts })),
      losses: (losses) => setLive((old) => ({ ...old, losses })),
      trouble: (trouble) => setLive((old) => ({ ...old, trouble })),
      down: (last) => setLive((old) => ({ ...old, trouble: away(last) })),
    });
  }, [key]);
  return live;
}

/** The console does not answer. @param {{since: number | null}} last @returns {TroubleOf} */
export const away = ({ since }) => ({ code: "console-away", message: "the console does not answer", since });

/** A list of partitions after some of them have changed. */
function changed({ items, more }, changes) {
  const fresh = new Map(changes.map((one) => [one.id, one]));
  return { items: items.map((one) => fresh.get(one.id) || one), more };
}

/**
 * The latest answer to a question, which is asked when the component appears, when one of `of` changes and, while
 * somebody sees the page, at an interval, but never while an answer is awaited. After a refusal, the answer before
 * remains, and `wrong` says why there is no other. @param {() => Promise<any>} ask @param {any[]} of
 * @param {number} [ms]
 */
export function useAsk(ask, of, ms) {
  const [found, set] = useState({ answer: null, wrong: "" });
  useEffect(() => {
    let live = true, waits = false;
    const run = () => {
      if (waits) return;
      waits = true;
      ask().then((answer) => live && set({ answer, wrong: "" }),
        (error) => live && set(({ answer }) => ({ answer, wrong: error.message }))).then(() => { waits = false; });
    };
    run();
    const timer = ms && setInterval(() => document.hidden || run(), ms);
    return () => { live = false; clearInterval(timer); };
  }, of);
  return found;
}

/**
 * Whether something that was asked is still wanted: each question makes those before void, and all are void when the
 * component has gone. @returns {() => () => boolean} asks, and gives what says so
 */
export function useLatest() {
  const latest = useRef(0);
  useEffect(() => () => { latest.current = -1; }, []);
  return useCallback(() => {
    if (latest.current < 0) return () => false;
    const own = (latest.current += 1);
    return () => latest.current === own;
  }, []);
}

/** Draws a component again at an interval. @param {number} ms */
export function useTick(ms) {
  const [, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => set((count) => count + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}
