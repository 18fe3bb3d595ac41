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

/** Sends a command of Redis, and gives its reply. @param {string} name @param {string} key @param {(string | number)[]} words */
export async function command(name, key, ...words) {
  return (await send("command", { command: name, key, arguments: words })).result;
}

/** Time after which a page that nobody sees stops listening, in milliseconds. */
const HIDDEN = 5000;

/**
 * Listens to the events of a key. Reconnects by itself. A page that is hidden does not listen: a browser opens six
 * connections to a server, and so a few tabs would use up all of them.
 * @param {string} key
 * @param {Record<string, (data: any) => void>} handlers by the event's name; `down` is called without a connection
 * @returns {() => void} ends it
 */
export function listen(key, handlers) {
  let source = null, timer, pause = 250;
  const open = () => {
    // A hidden page listens again once it is seen.
    if (document.hidden) return;
    source = new EventSource(address("events", { key }));
    for (const [name, handler] of Object.entries(handlers)) {
      if (name === "down" || name === "open") continue;
      source.addEventListener(name, (event) => handler(JSON.parse(/** @type {MessageEvent} */ (event).data)));
    }
    // A page that does not read again by itself gets the latest state from a new stream.
    if (!handlers.resync) source.addEventListener("resync", () => { close(); open(); });
    source.onopen = () => {
      pause = 250;
      handlers.open?.(undefined);
    };
    source.onerror = () => {
      close();
      handlers.down?.(undefined);
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, 4000);
    };
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const seen = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(close, HIDDEN);
    else if (!source) open();
  };
  open();
  document.addEventListener("visibilitychange", seen);
  // A page that was left may be kept for the way back, with its connections.
  addEventListener("pagehide", close);
  addEventListener("pageshow", seen);
  return () => {
    document.removeEventListener("visibilitychange", seen);
    removeEventListener("pagehide", close);
    removeEventListener("pageshow", seen);
    close();
  };
}
