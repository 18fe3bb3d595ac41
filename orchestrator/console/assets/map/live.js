// The live state of a show: the map once, then its changes. The map and the changes come on two ways, so changes that
// come before the map wait for it.
import { get, listen, Refusal } from "../lib/api.js";
import { away } from "../lib/live.js";
import { Show } from "./model.js";

/** Most changes that wait for a map: those of ten seconds. A map that is read after more of them is read again. */
const WAITING = 50;

/**
 * @param {string} key
 * @param {{loaded: (show: Show, again: boolean) => void, changed: (positions: number[], show: Show) => void, events:
 *   (list: any[]) => void,
 *          waiting: (list: {items: any[], more: boolean}) => void,
 *          trouble: (trouble: import("../lib/live.js").TroubleOf | null) => void, clock: (now: number) => void}} told
 * @returns {() => void} ends it
 */
export function follow(key, told) {
  /** @type {Show | null} */
  let show = null;
  let waiting = [], loading = false, again = false, ended = false, retry;
  const load = async () => {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const map = await get("show/map", { key });
      if (ended) return;
      const first = show === null;
      show = new Show(map);
      told.clock(map.now);
      for (const changes of waiting.filter((changes) => changes.seq > map.seq)) {
        if (show.change(changes) === null) again = true;
      }
      waiting = [];
      told.loaded(show, !first);
    } catch (error) {
      // Of what the console refuses, the stream says why.
      if (!(error instanceof Refusal)) console.error(error);
      retry = setTimeout(load, 1000);
    } finally {
      loading = false;
    }
    if (again && !ended) {
      again = false;
      load();
    }
  };
  const end = listen(key, {
    sync: ({ seq, now }) => {
      told.clock(now);
      if (!loading && seq !== show?.seq) load();
    },
    changes: (changes) => {
      told.clock(changes.now);
      if (!show || loading) {
        waiting.push(changes);
        // While the map cannot be read, changes go on. A gap in them is found, and the map is read again.
        if (waiting.length > WAITING) waiting.shift();
        return;
      }
      const changed = show.change(changes);
      if (changed === null) load();
      else if (changed.length || changes.standing?.length) told.changed(changed, show);
    },
    resync: load,
    events: told.events,
    waiting: told.waiting,
    trouble: told.trouble,
    down: (last) => told.trouble(away(last)),
  });
  return () => {
    ended = true;
    clearTimeout(retry);
    end();
  };
}
