// Small parts of pages.
import { html, useEffect, useRef, useState } from "./ui.js";
import { command, send } from "./api.js";
import { choose } from "./address.js";
import { clock } from "./format.js";
import { useLive } from "./live.js";

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
  return html`<div class=${`figure ${tone || ""}${long ? " long" : ""}`}><div class="value">${value}</div><div class="name">${name}</div>
    ${hint ? html`<div class="hint">${hint}</div>` : null}</div>`;
}

/** A state as a word with a mark that does not need colour. @param {{tone: string, children?: any}} props */
export function Badge({ tone, children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}

const KINDS = {
  held: "held", extended: "held", offered: "held", waiting: "warn", confirmed: "sold", released: "free", expired: "free", refunded: "free",
  blocked: "blocked", unblocked: "free", ended: "plain", draining: "warn", suspect: "warn", creating: "warn", pending: "held",
};

/** The tone of an event's badge. @param {string} kind */
function eventTone(kind) {
  if (KINDS[kind]) return KINDS[kind];
  if (/lost|down|failed|unreachable/.test(kind)) return "bad";
  return /opened|up|granted|joined/.test(kind) ? "good" : "plain";
}

/** What cannot be read now. @param {{trouble: string | null}} props */
export function Trouble({ trouble }) {
  return trouble ? html`<p class="trouble" role="alert">${trouble}</p>` : null;
}

/** Chooses one of the keys of a kind; alone, it is only named. @param {{keys: {kind: string, key: string}[], kind: string, value: string, label: string}} props */
export function KeyChoice({ keys, kind, value, label }) {
  const all = keys.filter((entry) => entry.kind === kind).map((entry) => entry.key);
  if (value && !all.includes(value)) all.unshift(value);
  return html`<label class="choice"><span>${label}</span>
    <select value=${value} onChange=${(event) => choose({ key: event.target.value })}>
      ${all.map((key) => html`<option value=${key} selected=${key === value}>${key}</option>`)}
    </select></label>`;
}

/**
 * A button that acts, after a question if there is one: it sends a command of Redis, or a body to a path. Viewers do not see it.
 * @param {{can: boolean, words?: () => [string, string, ...(string | number)[]], path?: string, body?: () => object, ask?: string,
 *          done?: (result: any) => void, tell?: (result: any) => string, children?: any, tone?: string, disabled?: boolean}} props
 *        `tell` says in words what the result is
 */
export function Act({ can, words, path, body, ask, done, tell, children, tone, disabled }) {
  const [state, set] = useState({ busy: false, said: "", wrong: false });
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);
  if (!can) return null;
  const run = async () => {
    if (ask && !confirm(ask)) return;
    set({ busy: true, said: "", wrong: false });
    try {
      const result = words ? await command(...words()) : (await send(path, body())).result;
      if (alive.current) set({ busy: false, said: tell ? tell(result) : "done", wrong: false });
      done?.(result);
    } catch (error) {
      if (alive.current) set({ busy: false, said: error.message, wrong: true });
    }
  };
  return html`<span class="act"><button type="button" class=${tone || ""} disabled=${state.busy || disabled} onClick=${run}>${children}</button>
    ${state.said ? html`<span class=${state.wrong ? "said wrong" : "said"} role="status">${state.said}</span>` : null}</span>`;
}

/**
 * The frame of a page about one key: a choice of the keys of its kind, and `children` with the live values of the chosen
 * key, once they are read. @param {{kind: string, keys: {kind: string, key: string}[], chosen: {key?: string}, title: string,
 *   label: string, none: any, bar?: (live: any) => any, children: (key: string, live: any) => any}} props
 */
export function LivePage({ kind, keys, chosen, title, label, none, bar, children }) {
  const key = chosen.key || keys.find((entry) => entry.kind === kind)?.key;
  const live = useLive(key || null);
  if (!key) return html`<p class="empty">${none}</p>`;
  const { state, trouble } = live;
  if (!state) return html`<${Reading} trouble=${trouble} what=${`the ${label.toLowerCase()}`} />`;
  return html`
    <header class="bar"><h1 class="away">${title} ${key}</h1><${KeyChoice} keys=${keys} kind=${kind} value=${key} label=${label} />${bar?.(live)}</header>
    <${Trouble} trouble=${trouble} />
    ${children(key, live)}`;
}

/** A page before its first values. @param {{trouble: string | null, what: string}} props */
export function Reading({ trouble, what }) {
  return html`<${Trouble} trouble=${trouble} /><h1 class="away">Reading</h1><p class="empty">${trouble ? "" : `Reading ${what}…`}</p>`;
}

/** Events, the newest first; `about` says in words what an event is about. @param {{events: any[], about: (event: any) => any}} props */
export function Events({ events, about }) {
  return html`<ol class="events">${events.map((event) => html`<li key=${`${event.key}/${event.id}`}>
    <time>${clock(Number(event.id.split("-")[0]))}</time> <${Badge} tone=${eventTone(event.fields.event || "")}>${event.fields.event || "event"}</${Badge}>
    ${about(event)}</li>`)}</ol>`;
}
