// The event stream of a browser. All windows share one, in a shared worker: a browser opens only six connections to a
// server. Where there are no shared workers, each window runs this file itself.

/** Time without any message after which the console is away, in milliseconds. It sends one each second. */
const SILENCE = 2500;
/** Interval of the check for silence. */
const LOOK = 250;
/** Time after which a window that says nothing is gone; each says every five seconds what it listens to. */
const GONE = 15000;
/** Pause before the stream is opened with other topics: a page leaves one and comes to another in one go. */
const SOON = 20;
/** Pauses before the stream is opened again. */
const FIRST_PAUSE = 250, LONGEST_PAUSE = 4000;

/**
 * The windows: what each listens to, and when it last said so. @type {Map<MessagePort, {topics: string[], at:
 * number}>}
 */
const windows = new Map();
/** @type {AbortController | null} */
let open = null;
let heard = 0, pause = FIRST_PAUSE, timer = 0, isDown = false, watch = 0;

/** Serves a window. @param {MessagePort} port */
export function serve(port) {
  port.onmessage = ({ data: { topics, again } }) => {
    const before = windows.get(port)?.topics || [];
    windows.set(port, { topics, at: Date.now() });
    watch ||= setInterval(look, LOOK);
    // A window that has begun to listen to something needs its state, also if others have it.
    if (again || topics.join("\n") !== before.join("\n")) later(SOON);
    else if (isDown) tell("down", null, since());
  };
}

const since = () => ({ since: heard || null });

/** Tells the windows that listen to a topic; all of them without one. */
function tell(event, topic, data) {
  for (const [port, { topics }] of windows) if (topic === null
    || topics.includes(topic)) port.postMessage({ event, topic, data });
}

/** Opens the stream after a pause. @param {number} ms */
function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(listen, ms);
}

/** Looks for windows that are gone, and for silence. */
function look() {
  for (const [port, { at, topics }] of windows) {
    if (Date.now() - at < GONE) continue;
    windows.delete(port);
    if (topics.length) later(SOON);
  }
  if (open && Date.now() - heard > SILENCE && !isDown) lost();
}

/** The console is away. */
function lost() {
  isDown = true;
  tell("down", null, since());
  open?.abort();
  later(pause);
  pause = Math.min(pause * 2, LONGEST_PAUSE);
}

/** Opens the stream of all topics, and reads it to its end. */
async function listen() {
  open?.abort();
  open = null;
  const topics = [...new Set([...windows.values()].flatMap((one) => one.topics))].sort();
  if (!topics.length) return;
  const own = (open = new AbortController());
  const late = setTimeout(() => own.abort(), SILENCE);
  try {
    const query = new URLSearchParams({ topics: JSON.stringify(topics) });
    const answer = await fetch(`/api/v1/events?${query}`, { signal: own.signal });
    clearTimeout(late);
    if (own !== open) return;
    if (answer.status === 401) {
      open = null;
      tell("session", null, null);
      return;
    }
    if (!answer.ok || !answer.body) throw new Error(`the console answered ${answer.status}`);
    [heard, pause, isDown] = [Date.now(), FIRST_PAUSE, false];
    tell("up", null, null);
    let rest = "";
    for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      heard = Date.now();
      const events = (rest + value).split("\n\n");
      rest = events.pop() || "";
      events.forEach(read);
    }
  } catch { /* as a stream that has ended */ }
  clearTimeout(late);
  if (own === open) {
    open = null;
    lost();
  }
}

/** One event of the stream. @param {string} text */
function read(text) {
  const fields = text.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line) || []);
  const event = fields.find(([, name]) => name === "event")?.[2];
  const data = fields.filter(([, name]) => name === "data").map(([, , value]) => value).join("\n");
  if (!event || event === "beat") return;
  const { topic, data: value } = JSON.parse(data);
  tell(event, topic, value);
}

if ("onconnect" in globalThis) {
  globalThis.onconnect = (/** @type {MessageEvent} */ event) => serve(event.ports[0]);
}
