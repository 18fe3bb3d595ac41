// Live values of a page.
import { useEffect, useState } from "./ui.js";
import { listen } from "./api.js";

/** Before the first message. */
const NOTHING = { state: null, trouble: null, at: 0, partitions: { items: [], more: false } };

/**
 * The latest state of a key, of the overview or of compaction.
 * @param {string | null} key
 * @returns {{state: any, trouble: string | null, at: number, partitions: {items: any[], more: boolean}}} `partitions` are those of
 *          compaction
 */
export function useLive(key) {
  const [live, setLive] = useState(NOTHING);
  useEffect(() => {
    setLive(NOTHING);
    if (!key) return undefined;
    return listen(key, {
      state: (state) => setLive((old) => ({ ...old, state, trouble: null, at: performance.now() })),
      partitions: (partitions) => setLive((old) => ({ ...old, partitions })),
      trouble: (problem) => setLive((old) => ({ ...old, trouble: problem.message })),
      down: () => setLive((old) => ({ ...old, trouble: "the console does not answer; trying again" })),
    });
  }, [key]);
  return live;
}

/** Draws a component again at an interval. @param {number} ms */
export function useTick(ms) {
  const [, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => set((count) => count + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}
