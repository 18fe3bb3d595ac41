// Small parts of pages.
import { createContext, html, useContext, useEffect, useRef, useState } from "./ui.js";
import { command, send } from "./api.js";
import { go, here, link, useAddress } from "./address.js";
import { clock } from "./format.js";
import { Partly } from "./many.js";
import { useLive } from "./live.js";
import { title as setTitle } from "./title.js";

/** @param {{title: string, extra?: any, children?: any, wide?: boolean, half?: boolean, id?: string}} props */
export function Panel({ title, extra, children, wide, half, id }) {
  return html`<section class=${`panel${wide ? " wide" : half ? " half" : ""}`} id=${id} aria-label=${title}>
    <header><h2>${title}</h2>${extra ? html`<div class="extra">${extra}</div>` : null}</header>
    ${children}
  </section>`;
}

/** A number with its name. @param {{name: string, value: any, tone?: string, hint?: any}} props */
export function Figure({ name, value, tone, hint }) {
  const long = String(value).length > 9;
  return html`<div class=${`figure ${tone || ""}${long ? " long" : ""}`}><div class="value">${value}</div>
    <div class="name">${name}</div>
    ${hint ? html`<div class="hint">${hint}</div>` : null}</div>`;
}

/** A state as a word with a mark that does not need colour. @param {{tone: string, children?: any}} props */
export function Badge({ tone, children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}

const KINDS = {
  held: "held", extended: "held", offered: "held", waiting: "warn", confirmed: "sold", released: "free",
    expired: "free", refunded: "free",
  blocked: "blocked", unblocked: "free", ended: "plain", draining: "warn", suspect: "warn", creating: "warn",
    pending: "held",
};

/** The tone of an event's badge. @param {string} kind */
function eventTone(kind) {
  if (KINDS[kind]) return KINDS[kind];
  if (/lost|down|failed|unreachable/.test(kind)) return "bad";
  return /opened|up|granted|joined/.test(kind) ? "good" : "plain";
}

/** Whether the values around are old: then nothing acts on them. */
const Old = createContext(false);

/** Each trouble in words. */
const TROUBLES = {
  "console-away": () => "The console does not answer. This page tries again by itself.",
  "late": () => "The server has not answered for some seconds.",
  "redis-away": (message) => `Redis is away: ${message}`,
  "zookeeper-away": (message) => `ZooKeeper is away: ${message}`,
  "NOKEY": (message) => `${message}. It was deleted, or has never been.`,
};

/** Why values are old, and from when they are. @param {{trouble: import("./live.js").TroubleOf | null}} props */
function Trouble({ trouble }) {
  if (!trouble) return null;
  const { code, message, since } = trouble;
  return html`<p class="trouble" role="alert">${(TROUBLES[code] || String)(message)}
    ${since ? html` <b>Values as of ${clock(since)}.</b>` : null}</p>`;
}

/**
 * What a page shows: while its values are old, it says so, dims them, and nothing can act on them.
 * @param {{trouble: import("./live.js").TroubleOf | null, title: string, children?: any, bar?: any}} props
 */
export function Page({ trouble, title, bar, children }) {
  const { seat, conference, cmu, task, account } = useAddress().chosen;
  const named = [seat ?? conference ?? cmu ?? task ?? account, title, "Allot"].filter(Boolean).join(" · ");
  useEffect(() => setTitle(named), [named]);
  return html`<${Old.Provider} value=${Boolean(trouble)}>
    ${bar ? html`<header class="bar"><h1 class="away">${title}</h1>${bar}</header>`
      : html`<h1 class="away">${title}</h1>`}
    <${Trouble} trouble=${trouble} /><${Undo} />
    <div class=${trouble ? "values old" : "values"}>${children}</div></${Old.Provider}>`;
}

/**
 * The keys of a kind that have pages. @param {{kind: string, key: string, is_text: boolean}[]} keys @param {string}
 * kind
 */
export const pagesOf = (keys, kind) => keys.filter((entry) => entry.kind === kind
  && entry.is_text).map((entry) => entry.key);

/** A key that is no text, with escapes. @param {{of: string}} props */
export const NoText = ({ of }) => html`<code>${of}</code> <span class="hint">is no text and has no page</span>`;

/**
 * Chooses one of the keys of a kind; alone, it is only named. @param {{keys: {kind: string, key: string, is_text:
 * boolean}[], kind: string, value: string, label: string}} props
 */
export function KeyChoice({ keys, kind, value, label }) {
  const all = pagesOf(keys, kind);
  if (value && !all.includes(value)) all.unshift(value);
  return html`<label class="choice"><span>${label}</span>
    <select value=${value} onChange=${(event) => go(link(here().page, { key: event.target.value }))}>
      ${all.map((key) => html`<option value=${key} selected=${key === value}>${key}</option>`)}
    </select></label>`;
}

/**
 * @typedef {string | ((...typed: string[]) => string)} Ask a question, which says whom and how many the action
 *   concerns, perhaps by what is typed
 * @typedef {[string, string, ...(string | number)[]]} Words a command with its key and arguments
 * @typedef {{ask: string, words?: Words, act?: (told: (said: string) => void) => Promise<any>}} Undone
 * @typedef {{title: string, value?: string | number}} Field what the operator may type as an answer, and what is
 *   there before
 *
 * A button that acts, after a question if there is one: it sends a command of Redis, or a body to a path. Viewers do
 * not see it.
 * @param {{can: boolean, words?: (...typed: string[]) => Words, path?: string, body?: () => object,
 *          ask?: Ask, fields?: Field[], check?: (...typed: string[]) => string,
 *          act?: (told: (said: string) => void, ...typed: string[]) => Promise<any>, done?: (result: any) => void,
 *          tell?: (result: any) => string, undo?: (result: any) => Undone,
 *          children?: any, tone?: string, disabled?: boolean}} props
 *        `check` says why what was typed cannot be; `act` does what is more than one command, and tells how far it is;
 *        `tell` says in words what the result is; `undo` has what makes the action undone, and its question
 */
export function Act({ can, words, path, body, act, ask, fields, check, done, tell, undo, children, tone, disabled }) {
  const [state, set] = useState({ busy: false, said: "", wrong: false });
  const [asking, setAsking] = useState(false);
  const isOld = useContext(Old);
  const alive = useRef(true), busy = useRef(false);
  useEffect(() => () => { alive.current = false; }, []);
  if (!can) return null;
  const show = (next) => { if (alive.current) set(next); };
  const run = async (...typed) => {
    // A second click may come before the button is drawn as disabled.
    if (busy.current) return;
    busy.current = true;
    setAsking(false);
    set({ busy: true, said: "", wrong: false });
    // Who acts may be on another page when it is done.
    const page = pageOf(here());
    const offer = (result) => offerUndo(undo ? { ...undo(result), page } : null);
    try {
      const result = act ? await act((said) => show({ busy: true, said, wrong: false }), ...typed)
        : words ? await command(...words(...typed)) : (await send(path, body())).result;
      show({ busy: false, said: tell ? tell(result) : "done", wrong: false });
      offer(result);
      done?.(result);
    } catch (error) {
      show({ busy: false, said: error.message, wrong: true });
      if (error instanceof Partly) offer(error.result);
    } finally {
      busy.current = false;
    }
  };
  return html`<span class="act">
    <button type="button" class=${tone || ""} disabled=${state.busy || disabled || isOld}
      onClick=${() => (ask ? setAsking(true) : run())}>${children}</button>
    ${asking ? html`<${Question} ask=${ask} fields=${fields} check=${check} no=${() => setAsking(false)}
      answers=${[{ title: children, tone, yes: run }]} />` : null}
    ${state.said ? html`<span class=${state.wrong ? "said wrong" : "said"} role="status">${state.said}</span>` : null}
      </span>`;
}

/** The page and the key of an address. @param {{page: string, chosen: {key?: string}}} address */
const pageOf = ({ page, chosen }) => `${page} ${chosen.key || ""}`;
/** What makes the last action undone, and what is told when that changes. */
let lastUndo = /** @type {(Undone & {page: string}) | null} */ (null);
const undoListeners = new Set();

function offerUndo(offer) {
  lastUndo = offer;
  undoListeners.forEach((listener) => listener(offer));
}

/** Makes the last action on this page undone, until there is another one. */
function Undo() {
  const [offer, set] = useState(lastUndo);
  const page = pageOf(useAddress());
  useEffect(() => {
    undoListeners.add(set);
    return () => { undoListeners.delete(set); };
  }, []);
  if (!offer || offer.page !== page) return null;
  return html`<div class="undo" role="status"><${Act} can ask=${offer.ask} act=${offer.act}
    words=${() => offer.words}>Undo</${Act}> <span class="hint">the last action</span></div>`;
}

/**
 * A question before an action, with one or more answers beside Cancel; Enter gives the first one.
 * @param {{ask: Ask, fields?: Field[], check?: (...typed: string[]) => string, no: () => void,
 *   answers: {title: any, tone?: string, yes: (...typed: string[]) => void}[]}} props
 */
export function Question({ ask, fields = [], check, no, answers }) {
  const dialog = useRef(null);
  const [typed, setTyped] = useState(fields.map(({ value = "" }) => String(value)));
  const [wrong, setWrong] = useState("");
  useEffect(() => dialog.current.showModal(), []);
  const written = (form) => fields.map((_, at) => form.elements[at ? `typed${at}` : "typed"].value.trim());
  const answer = (event) => {
    event.preventDefault();
    const given = written(event.currentTarget);
    const why = check?.(...given) || "";
    setWrong(why);
    if (why) return;
    const at = answers.findIndex((_, at) => event.submitter?.value === String(at));
    answers[Math.max(0, at)].yes(...given);
  };
  const said = typeof ask === "function" ? ask(...typed) : ask;
  return html`<dialog ref=${dialog} class="question" aria-label=${said} onClose=${no}
    onClick=${(event) => event.stopPropagation()}>
    <form onSubmit=${answer} onInput=${(event) => setTyped(written(event.currentTarget))}>
      <p>${said}</p>
      ${fields.map(({ title, value }, at) => html`<label>${title} <input name=${at ? `typed${at}` : "typed"}
        maxlength="256" defaultValue=${value ?? ""} autofocus=${!at} /></label>`)}
      ${wrong ? html`<p class="said wrong" role="alert">${wrong}</p>` : null}
      <div class="acts"><button type="button" onClick=${no}>Cancel</button>
        ${answers.map(({ title, tone }, at) => html`<button type="submit" value=${at} class=${tone || "main"}
          autofocus=${!fields.length && !at}>${title}</button>`)}</div>
    </form></dialog>`;
}

/**
 * The frame of a page about one key: a choice of the keys of its kind, and `children` with the live values of the
 * chosen key, once they are read. @param {{kind: string, keys: {kind: string, key: string, is_text: boolean}[],
 * chosen: {key?: string}, title: string,
 *   label: string, none: any, bar?: (live: any) => any, children: (key: string, live: any) => any}} props
 */
export function LivePage({ kind, keys, chosen, title, label, none, bar, children }) {
  const key = chosen.key || pagesOf(keys, kind)[0];
  const live = useLive(key || null);
  if (!key) return html`<p class="empty">${none}</p>`;
  const { state, trouble } = live;
  if (!state) return html`<${Reading} trouble=${trouble} what=${`the ${label.toLowerCase()}`} />`;
  const choice = html`<${KeyChoice} keys=${keys} kind=${kind} value=${key} label=${label} />${bar?.(live)}`;
  return html`<${Page} trouble=${trouble} title=${`${title} ${key}`} bar=${choice}>${children(key, live)}</${Page}>`;
}

/** A page before its first values. @param {{trouble: import("./live.js").TroubleOf | null, what: string}} props */
export function Reading({ trouble, what }) {
  return html`<${Trouble} trouble=${trouble} /><h1 class="away">Reading</h1><p class="empty">
    ${trouble ? "" : `Reading ${what}…`}</p>`;
}

/**
 * Events, the newest first; `about` says in words what an event is about. @param {{events: any[], about: (event: any)
 * => any}} props
 */
export function Events({ events, about }) {
  return html`<ol class="events">${events.map((event) => html`<li key=${`${event.key}/${event.id}`}>
    <time>${clock(Number(event.id.split("-")[0]))}</time> <${Badge} tone=${eventTone(event.fields.event || "")}>
      ${event.fields.event || "event"}</${Badge}>
    ${about(event)}</li>`)}</ol>`;
}
