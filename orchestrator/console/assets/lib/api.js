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

/** Longest wait for an answer, in milliseconds. */
const PATIENCE = 30000;

/** @param {string} path @param {RequestInit} more @param {AbortSignal[]} [ends] */
async function ask(path, more, ends = []) {
  const signal = AbortSignal.any([AbortSignal.timeout(PATIENCE), ...ends]);
  const answer = await fetch(path, { ...more, signal }).catch(() => {
    throw new Refusal(0, { code: "console-away", message: "the console does not answer" });
  });
  const body = await answer.json().catch(() => {
    if (!answer.ok) return {};
    throw new Refusal(0, { code: "console-away", message: "the answer of the console has no end" });
  });
  if (answer.status === 401 && body.code === "no-token") leavers.forEach((leave) => leave());
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

/** The reads whose answers are awaited. @type {Set<AbortController>} */
const reads = new Set();
/** Whether the console was away and has not been heard since. */
let wasAway = false;

/** The console is there again: an answer that was on its way when it went may never come, so reads are repeated. */
function readAgain() {
  wasAway = false;
  reads.forEach((read) => read.abort());
}

/** Reads. @param {string} path @param {Record<string, string | number | undefined | null>} [query] */
export async function get(path, query) {
  for (;;) {
    const own = new AbortController();
    reads.add(own);
    try {
      return await ask(address(path, query), {}, [own.signal]);
    } catch (error) {
      if (!own.signal.aborted) throw error;
    } finally {
      reads.delete(own);
    }
  }
}

/** Acts. @param {string} path @param {object} body @param {string} [method] */
export async function send(path, body, method = "POST") {
  const headers = { "content-type": "application/json", "x-allot-request": "1" };
  return ask(address(path), { method, headers, body: JSON.stringify(body) });
}

/**
 * Sends a command of Redis, and gives its reply. @param {string} name @param {string} key @param {(string |
 * number)[]} words
 */
export async function command(name, key, ...words) {
  return (await send("command", { command: name, key, arguments: words })).result;
}

/** Time after which a window that nobody sees stops listening, in milliseconds. */
const HIDDEN = 5000;
/** Interval at which a window says that it is still there, in milliseconds. */
const PRESENT = 5000;

/** What listens, by topic. @type {Map<string, Set<Record<string, (data: any) => void>>>} */
const listeners = new Map();
/** What is told that the session may have ended. @type {Set<() => void>} */
const leavers = new Set();
/** @type {MessagePort | null} */
let port = null;
let hiding, isAway = false;

/** The way to the event stream that all windows share. */
function connect() {
  if (globalThis.SharedWorker) return new SharedWorker("/lib/stream.js", { type: "module" }).port;
  const { port1, port2 } = new MessageChannel();
  import("./stream.js").then(({ serve }) => serve(port2));
  return port1;
}

/** Says what this window listens to. @param {boolean} [again] also if that is as before */
function present(again) {
  if (!port) {
    port = connect();
    port.onmessage = ({ data }) => heard(data);
    setInterval(present, PRESENT);
    document.addEventListener("visibilitychange", seen);
    // A page that was left may be kept for the way back.
    addEventListener("pagehide", () => { isAway = true; present(); });
    addEventListener("pageshow", seen);
  }
  port.postMessage({ topics: isAway ? [] : [...listeners.keys()].sort(), again: again === true });
}

function seen() {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => { isAway = true; present(); }, HIDDEN);
  else if (isAway) {
    isAway = false;
    present();
  }
}

/** A message of the stream. */
function heard({ event, topic, data }) {
  if (event === "down") wasAway = true;
  if (event === "up" && wasAway) readAgain();
  if (event === "session") leavers.forEach((leave) => leave());
  const told = topic === null ? [...listeners.values()] : [listeners.get(topic) || []];
  // Where a reader does not read again by itself, a new stream gives it the latest state.
  for (const set of told) for (const handlers of set) if (handlers[event]) handlers[event](data);
    else if (event === "resync") present(true);
}

/**
 * Calls `leave` when a request was refused for want of a session. It may be one from before the last login.
 * @param {() => void} leave
 */
export function onLeave(leave) {
  leavers.add(leave);
  return () => leavers.delete(leave);
}

/**
 * Listens to the events of a topic: a key, or one of the names that the API has. A window that is hidden does not
 * listen.
 * @param {string} topic
 * @param {Record<string, (data: any) => void>} handlers by the event's name; `down` is called when the console is
 *   away, with
 *        the time in milliseconds since 1970 at which it was last heard
 * @returns {() => void} ends it
 */
export function listen(topic, handlers) {
  if (!listeners.has(topic)) listeners.set(topic, new Set());
  listeners.get(topic).add(handlers);
  present(true);
  return () => {
    listeners.get(topic)?.delete(handlers);
    if (!listeners.get(topic)?.size) listeners.delete(topic);
    present();
  };
}
