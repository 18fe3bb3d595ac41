// A show: the seat map, counts, holds, events, and what an operator does with seats.
import { html, useCallback, useEffect, useRef, useState } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { choose, here } from "../lib/address.js";
import { KeyChoice, Page, pagesOf } from "../lib/parts.js";
import { number, percent } from "../lib/format.js";
import { useLatest } from "../lib/live.js";
import { follow } from "../map/live.js";
import { SOLD } from "../map/model.js";
import { kindsOf, layout } from "../map/layout.js";
import { ABOVE, View } from "../map/view.js";
import { gestures } from "../map/gestures.js";
import { tierColour } from "../map/palette.js";
import { Dropped } from "./moves.js";
import { SeatCard, Selection } from "./seats.js";
import { AreaTable, EventList, Holds, SalesChart } from "./show-side.js";
import { Shows } from "./shows.js";
import { Waiting } from "./waiting.js";

/** Points of the sales chart that the page keeps, one each second. */
const POINTS = 900;
/** Most seats that can be selected: as many as a command names. */
const SELECTED = 20000;
/** Longest list of seats in the page's address, in characters. */
const LINKED = 4000;

/** The ids of the seats in the page's address. @param {{seat?: string, seats?: string}} chosen @returns {string[]} */
function idsOf({ seat, seats }) {
  try {
    return seats ? JSON.parse(seats) : seat ? [seat] : [];
  } catch {
    // Somebody has written it.
    return [];
  }
}

export function ShowPage({ keys, more, chosen, can }) {
  const shows = keys.filter((entry) => entry.kind === "show");
  if (!chosen.key && shows.length > 1) return html`<${Shows} keys=${keys} more=${more} />`;
  const key = chosen.key || pagesOf(keys, "show")[0];
  if (!key) return html`<p
    class="empty">There is no show in Redis yet. <code>allot show create</code> creates one from a plan.</p>`;
  return html`<${OneShow} key=${key} name=${key} keys=${keys} chosen=${chosen} can=${can} />`;
}

function OneShow({ name, keys, chosen, can }) {
  const place = useRef(null), view = useRef(null), show = useRef(null), clock = useRef({ now: 0, at: 0 });
  const [version, setVersion] = useState(0);
  const [trouble, setTrouble] = useState(null);
  const [hover, setHover] = useState({ at: -1, x: 0, y: 0 });
  const [selected, setSelected] = useState([]);
  const [events, setEvents] = useState([]);
  const [waiting, setWaiting] = useState({ items: [], more: false });
  const [points, setPoints] = useState([]);
  const [refused, setRefused] = useState("");
  /**
   * A sold seat that was carried to another one, with those that go with it, and when.
   * @type {[{seats: number[], from: number, to: number, at: number} | null, any]}
   */
  const [dropped, setDropped] = useState(null);
  const kind = chosen.layout, only = chosen.tier;
  // The seats of the address. While the operator selects, the address follows.
  const linked = useRef("");
  /** Selects other seats, unless they are too many. @param {(old: number[]) => number[]} change */
  const choosing = (change) => setSelected((old) => {
    const seats = change(old);
    setRefused(seats.length > SELECTED
      ? `${number(seats.length)} seats; at most ${number(SELECTED)} can be selected at once` : "");
    return seats.length > SELECTED ? old : seats;
  });
  const [acted, setActed] = useState(0);
  const done = () => setActed((count) => count + 1);
  const spread = (seats, kind) => choosing((old) => [...new Set([...old, ...show.current.alike(seats, kind)])]);
  const loaded = useCallback((keep) => {
    if (!view.current || !show.current) return;
    const { width, height } = view.current;
    const made = layout(show.current, kind, width / Math.max(1, height));
    view.current.load(show.current, made, keep);
    view.current.only(show.current.tiers.indexOf(only));
  }, [kind, only]);
  // While values are old, the chart has a gap.
  const old = useRef(false);
  old.current = Boolean(trouble);
  const may = useRef(can);
  may.current = can;
  const reload = useRef(loaded);
  reload.current = loaded;

  useEffect(() => {
    const drawn = (view.current = new View(place.current));
    // Tests and measurements read the state of the map here.
    Object.assign(place.current, { view: drawn });
    let drawing = 0;
    const soon = () => { drawing ||= setTimeout(() => { drawing = 0; setVersion((count) => count + 1); }, 250); };
    const end = follow(name, {
      loaded: (found, again) => {
        show.current = found;
        reload.current(again);
        setVersion((count) => count + 1);
      },
      changed: (changed) => {
        drawn.change(changed);
        soon();
      },
      events: setEvents,
      waiting: setWaiting,
      trouble: setTrouble,
      clock: (now) => { clock.current = { now, at: performance.now() }; },
    });
    const still = gestures(place.current, drawn, {
      hover: (at, x, y) => setHover((old) => (old.at === at && at < 0 ? old : { at, x, y })),
      pick: (at, more) => choosing((old) => {
        if (at < 0) return more ? old : [];
        return old.includes(at) ? old.filter((other) => other !== at) : more ? [...old, at] : [at];
      }),
      frame: (seats) => choosing((old) => [...new Set([...old, ...seats])]),
      spread: (seat, kind) => spread([seat], kind),
      movable: (seat) => may.current && !old.current && drawn.chosen.has(seat) && show.current.state[seat] === SOLD,
      drop: (from, to) => setDropped({ from, to, at: performance.now(),
        seats: [...drawn.chosen].filter((at) => show.current.state[at] === SOLD) }),
    });
    return () => { end(); still(); clearTimeout(drawing); drawn.close(); };
  }, [name]);

  useEffect(() => { loaded(true); if (kind) view.current?.fit(); }, [kind]);
  useEffect(() => { if (show.current) view.current?.only(show.current.tiers.indexOf(only)); }, [only, version > 0]);
  useEffect(() => {
    if (view.current) { view.current.chosen = new Set(selected); view.current.draw(ABOVE); }
    const ids = selected.map((at) => show.current?.seat(at)?.id).filter(Boolean);
    const one = ids.length === 1 ? ids[0] : null, list = JSON.stringify(ids);
    const many = ids.length > 1 && list.length <= LINKED ? list : null;
    if (!show.current || (one === (chosen.seat ?? null) && many === (chosen.seats ?? null))) return;
    linked.current = JSON.stringify([one ?? undefined, many ?? undefined]);
    choose({ seat: one, seats: many });
  }, [selected]);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!show.current) return;
      const sum = (state) => (old.current ? null : show.current.counts.reduce(
        (all, counts) => all + counts[state], 0));
      const at = now();
      // The server may be another one, whose clock is behind.
      const point = { at, free: sum(1), held: sum(2), sold: sum(3) };
      setPoints((points) => (at <= points.at(-1)?.at ? points : [...points, point].slice(-POINTS)));
    }, 1000);
    return () => clearInterval(timer);
  }, [name]);

  // The seats of the page's address, if the operator has not just selected them.
  useEffect(() => {
    // The address may be newer than what is drawn.
    const newest = here().chosen, link = JSON.stringify([newest.seat, newest.seats]);
    if (!show.current || linked.current === link) return;
    const seats = idsOf(newest).map((id) => show.current.find(id)).filter((at) => at >= 0);
    if (seats.length || linked.current) setSelected(seats);
    linked.current = link;
    if (seats.length) view.current.reveal(seats);
  }, [chosen.seat, chosen.seats, version > 0]);

  const now = () => clock.current.now + performance.now() - clock.current.at;
  const current = show.current;
  const bar = html`
        <${KeyChoice} keys=${keys} kind="show" value=${name} label="Show" />
        <a class="all" href="/show">All shows</a>
        <${Search} show=${current} name=${name} text=${chosen.find}
          found=${(seats) => { choosing(() => seats); view.current.reveal(seats); }} />
        <label class="choice"><span>Layout</span>
          <select value=${kind || ""} onChange=${(event) => choose({ layout: event.target.value })}>
            <option value="">Automatic</option>
            ${kindsOf(current).map(([value, title]) => html`<option value=${value} selected=${kind === value}>
              ${title}</option>`)}
          </select></label>`;
  return html`<${Page} trouble=${trouble} title=${`Show ${name}`} bar=${bar}>
    <div class="show-page">
      <${Legend} show=${current} only=${only} version=${version} />
      <div class="stage-room">
        <div class="map" ref=${place} tabindex="0" role="application" aria-describedby="map-help"
          aria-label=${`Seat map of ${name}. The table of areas below has the same counts.`}></div>
        ${hover.at >= 0 && current ? html`<${SeatCard} name=${name} show=${current} hover=${hover} now=${now}
          room=${place.current} />` : null}
        ${!current && !trouble ? html`<p class="loading">Reading the show…</p>` : null}
        <div class="below-map">
          <p id="map-help"
            class="hint">Wheel or pinch zooms, drag moves, click selects, Shift and drag selects many.
            Keys: arrows, +, −, 0; Enter begins at a seat, arrows go on, Enter selects, Space adds, R, A and T select
            its row, area or tier, Escape ends.${" "}
            ${can ? "Selected seats that are sold can be dragged to others." : ""}</p>
          <div class="tools" role="group" aria-label="Zoom">
            <button type="button" aria-label="Zoom in" onClick=${() => view.current.zoom(1.5)}>+</button>
            <button type="button" aria-label="Zoom out" onClick=${() => view.current.zoom(1 / 1.5)}>−</button>
            <button type="button" aria-label="Show everything" onClick=${() => view.current.fit()}>⤢</button>
          </div>
        </div>
      </div>
      <div class="side">
        ${dropped && current ? html`<${Dropped} key=${dropped.at} name=${name} show=${current} dropped=${dropped}
          done=${done} end=${() => setDropped(null)} />` : null}
        <${Selection} name=${name} show=${current} selected=${selected} refused=${refused} can=${can}
          version=${version} now=${now} clear=${() => { setSelected([]); setRefused(""); }} spread=${spread}
          acted=${acted} done=${done} />
        <${SalesChart} name=${name} points=${points} old=${Boolean(trouble)} />
        <${Holds} name=${name} show=${current} version=${version} now=${now}
          pick=${(seats) => { setSelected(seats); view.current.reveal(seats); }} />
        <${EventList} events=${events} show=${current}
          pick=${(seats) => { setSelected(seats); view.current.reveal(seats); }} />
      </div>
      <${Waiting} name=${name} show=${current} can=${can} waiting=${waiting} now=${now} />
      <${AreaTable} show=${current} version=${version}
        reveal=${(area) => view.current.reveal(positions(current, area))}
        select=${(area) => spread([positions(current, area)[0]], "area")} />
    </div></${Page}>`;
}

function positions(show, area) {
  const all = [];
  for (let at = area.start; at < area.end; at += 1) if (show.tier[at] !== 255) all.push(at);
  return all;
}

/** Tiers and states with their colours and counts; a click on a tier shows it alone. */
function Legend({ show, only, version }) {
  if (!show) return html`<div class="legend"></div>`;
  const sum = (state) => show.counts.reduce((all, counts) => all + counts[state], 0);
  const all = sum(1) + sum(2) + sum(3) + sum(4);
  const dot = (colour, kind) => html`<svg class="dot" width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
    <rect x="1.5" y="1.5" width="11" height="11" rx="3" fill=${`var(${colour})`}
      stroke=${kind === "blocked" ? "var(--map-blocked-line)" : "none"} />
    ${kind === "blocked" ? html`<path d="M4.5 4.5l5 5m0-5l-5 5" stroke="var(--map-blocked-line)" />` : null}</svg>`;
  return html`<div class="legend" data-version=${version}>
    <div class="states">
      ${[["held", 2, "--held"], ["sold", 3, "--map-sold"], ["blocked", 4,
        "--blocked"]].map(([title, state, colour]) => html`
        <span class="entry">${dot(colour, title)} ${title} <b class=${`count-${title}`}>${number(sum(state))}</b>
          </span>`)}
      <span class="entry total"><b class="count-free">${number(sum(1))}</b> of ${number(all)} free, <b>
        ${percent(sum(3), all)}</b> sold</span>
    </div>
    <div class="tiers" role="group" aria-label="Tiers; a click shows one alone">
      ${show.tiers.map((tier, index) => html`<button type="button" class="entry tier" aria-pressed=${only === tier}
          onClick=${() => choose({ tier: only === tier ? null : tier })}>${dot(tierColour(index))} ${tier} <b>
            ${number(show.counts[index][1])}</b></button>`)}
    </div>
  </div>`;
}

/** Finds a seat, or the seats of a user, a token or an order. */
function Search({ show, name, text: given, found }) {
  const [said, setSaid] = useState("");
  const latest = useLatest();
  const look = async (text) => {
    const isWanted = latest(), at = show.find(text);
    if (at >= 0) {
      choose({ find: null });
      setSaid("");
      found([at]);
      return;
    }
    try {
      const { seats: ids, more } = await get("show/find", { key: name, text });
      // Somebody may look for something else meanwhile.
      if (!isWanted()) return;
      const seats = ids.map((id) => show.find(id)).filter((seat) => seat >= 0);
      setSaid(ids.length ? `${number(ids.length)}${more ? " and more" : ""} seats of ${text}`
        : `nothing is known of ${text}`);
      if (seats.length) found(seats);
    } catch (error) {
      if (isWanted()) setSaid(error.message);
    }
  };
  // The search of the page's address.
  useEffect(() => { if (given && show) look(given); }, [given, Boolean(show)]);
  const search = (event) => {
    event.preventDefault();
    const text = String(new FormData(event.target).get("text") || "").trim();
    if (!text || !show) return;
    if (text === given || show.find(text) >= 0) look(text);
    else choose({ find: text, seat: null });
  };
  return html`<form class="search" role="search" onSubmit=${search}>
    <input type="search" name="text" defaultValue=${given || ""} placeholder="Seat, user, token or order"
      aria-label="Find a seat, a user, a token or an order" />
    <button type="submit">Find</button>
    ${said ? html`<span class="said" role="status">${said}</span>` : null}
  </form>`;
}
