// Requests to the API under the page.

/** An answer of the API that is no success. */
export class Refusal extends Error {
  /** @param {number} status @param {{code?: string, message?: string}} problem */
  constructor(status, problem) {
    super(problem.message || `the console answered ${status}`);
    this.status = status;
    this.code = problem.code || "unknown";
  }
}

/** @param {string} path @param {Record<string, string | number | undefined | null>} [query] */
export function address(path, query = {}) {
  const parts = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(parts.map(([name, value]) => [name, String(value)])).toString();
  return `/api/v1/${path}${text ? `?${text}` : ""}`;
}

/** @param {Response} answer */
async function read(answer) {
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

/** Reads. @param {string} path @param {Record<string, string | number | undefined | null>} [query] */
export async function get(path, query) {
  return read(await fetch(address(path, query)));
}

/** Acts. @param {string} path @param {object} body @param {string} [method] */
export async function send(path, body, method = "POST") {
  const headers = { "content-type": "application/json", "x-allot-request": "1" };
  return read(await fetch(address(path), { method, headers, body: JSON.stringify(body) }));
}

/**
 * Listens to the events of a key. Reconnects by itself.
 * @param {string} key
 * @param {Record<string, (data: any) => void>} handlers by the event's name; `down` is called without a connection
 * @returns {() => void} ends it
 */
export function listen(key, handlers) {
  let source, timer, pause = 250, ended = false;
  const open = () => {
    source = new EventSource(address("events", { key }));
    for (const [name, handler] of Object.entries(handlers)) {
      if (name === "down" || name === "open") continue;
      source.addEventListener(name, (event) => handler(JSON.parse(/** @type {MessageEvent} */ (event).data)));
    }
    source.onopen = () => {
      pause = 250;
      handlers.open?.(undefined);
    };
    source.onerror = () => {
      source.close();
      handlers.down?.(undefined);
      if (ended) return;
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, 4000);
    };
  };
  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    source.close();
  };
}
