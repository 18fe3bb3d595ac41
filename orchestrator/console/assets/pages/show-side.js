// What stands beside and below the seat map: sales, holds, events, and the map as a table.
import { html, useMemo, useState } from "../lib/ui.js";
import { command, get } from "../lib/api.js";
import { Events, Panel } from "../lib/parts.js";
import { Chart } from "../lib/chart.js";
import { Table, save } from "../lib/table.js";
import { useAsk } from "../lib/live.js";
import { number, percent, span, time } from "../lib/format.js";
import { HELD } from "../map/model.js";

/** Interval at which the sales are read again, in milliseconds: shorter than the time that `points` cover. */
const SALES = 600_000;
/** Interval at which the holds are read, in milliseconds. */
const HOLDS = 2000;

/** Where the curve of sales begins. */
function beginning({ at, whole }) {
  if (!at.length) return "The show keeps no events of sales, so the curve begins when the page is opened.";
  return whole ? `Since the creation of the show, ${time(at[0])}.`
    : `Since ${time(at[0])}: the show keeps no older events.`;
}

/**
 * The seats sold since the creation of the show, and the seats by state since the page was opened. What was sold while
 * values were `old` is read afterwards; without an event stream it is a gap.
 */
export function SalesChart({ name, points, old }) {
  const { answer, wrong } = useAsk(() => get("show/sales", { key: name }), [name, old], SALES);
  const past = answer || { at: [], sold: [] };
  const last = past.at.at(-1) || 0;
  const recent = points.filter((point) => point.at > last);
  return html`<${Panel} title="Sales">
    ${answer || wrong ? html`<${Chart} label="Seats sold" height=${150} gap=${Infinity} stepped
      at=${[...past.at, ...recent.map((point) => point.at)]}
      lines=${[{ name: "sold", values: [...past.sold, ...recent.map((point) => point.sold)], colour: "--blue",
        fill: true }]} />` : null}
    ${answer ? html`<p class="hint">${beginning(answer)}</p>` : null}
    ${wrong && !answer ? html`<p class="hint">Earlier sales cannot be read: ${wrong}</p>` : null}
  </${Panel}>
  <${Panel} title="Seats since the page was opened">
    <${Chart} label="Seats by state" height=${120}
      at=${points.map((point) => point.at)}
      lines=${[
        { name: "sold", values: points.map((point) => point.sold), colour: "--blue", fill: true },
        { name: "held", values: points.map((point) => point.held), colour: "--amber", dash: [6, 3] },
        { name: "free", values: points.map((point) => point.free), colour: "--teal", dash: [2, 3] },
      ]} />
  </${Panel}>`;
}

/** Places that one step of a list of holds examines. */
const STEP = 4000;

/** Saves all live holds, those that end first on top. @param {string} name @param {(said: string) => void} told */
async function saveHolds(name, told) {
  const holds = [];
  let cursor = 0;
  do {
    const page = await command("SEAT.LIST", name, "HOLDS", "CURSOR", cursor, "COUNT", STEP);
    holds.push(...page.items);
    cursor = page.cursor;
    told(`${number(holds.length)} read`);
  } while (Number(cursor));
  const lines = holds.sort((a, b) => a.until - b.until).map(({ token, user, seats, until }) => [user, token,
    seats.length, new Date(until).toISOString(), seats.join(" ")]);
  save("holds", [["user", "token", "count", "until", "seats"], ...lines]);
}

/** Live holds, those that end first on top. */
export function Holds({ name, show, version, now, pick }) {
  const held = show ? show.counts.reduce((all, counts) => all + counts[HELD], 0) : 0;
  const { answer, wrong } = useAsk(async () => (held ? get("show/holds", { key: name }) : null), [name, held > 0],
    HOLDS);
  const { count, first } = (held && answer) || { count: 0, first: [] };
  const [saved, setSaved] = useState("");
  const saveAll = () => saveHolds(name, setSaved).then(() => setSaved(""), (error) => setSaved(error.message));
  return html`<${Panel} title="Holds" extra=${count ? html`<span class="hint">${saved || number(count)}</span>
    <button type="button" class="quiet save" aria-label="Save all holds as CSV" onClick=${saveAll}>CSV</button>`
    : null}>
    ${wrong ? html`<p class="hint">The holds cannot be read: ${wrong}</p>` : null}
    ${first.length ? html`<ul class="holds" data-version=${version}>${first.slice(0, 8).map((hold) => {
      const rest = hold.until - now();
      return html`<li>
        <button type="button" class="row"
        onClick=${() => pick(hold.seats.map((id) => show.find(id)).filter((at) => at >= 0))}>
        <span class="who">${hold.user}</span><span class="what">
          ${hold.seats.length === 1 ? "1 seat" : `${hold.seats.length} seats`}</span>
          <span class=${rest < 30000 ? "rest soon" : "rest"}>${span(rest)}</span></button></li>`;
    })}</ul>` : held ? null : html`<p class="hint">No seat is held.</p>`}
  </${Panel}>`;
}

/** The newest events of the show. */
export function EventList({ events, show, pick }) {
  if (!events.length) return null;
  const seats = (event) => {
    try {
      return JSON.parse(event.fields.seats || "[]");
    } catch {
      // A long list was cut.
      return [];
    }
  };
  return html`<${Panel} title="Events"><${Events} events=${events.slice(0, 14)} about=${(event) => {
    const found = seats(event);
    return html`<span class="who">${event.fields.user || ""}</span>
      ${found.length ? html`<button type="button" class="quiet"
        onClick=${() => pick(found.map((id) => show.find(id)).filter((at) => at >= 0))}>
        ${found.length === 1 ? found[0] : `${found.length} seats`}</button>` : null}`;
  }} /></${Panel}>`;
}

/**
 * The counts of an area, by state. A standing area is not on the map: `area` is null. @param {any} of @param {string}
 * tiers @param {number[]} counts @param {any} area
 */
function countsRow({ name, priority }, tiers, counts, area) {
  const [, free, held, sold, blocked] = counts;
  const seats = free + held + sold + blocked;
  return { area, name, priority, tiers, seats, free, held, sold, blocked, share: seats ? sold / seats : 0 };
}

/** The map as a table: the counts of every area. */
export function AreaTable({ show, version, reveal, select }) {
  const rows = useMemo(() => {
    if (!show) return [];
    const seated = show.areas.map((area) => {
      const counts = [0, 0, 0, 0, 0], tiers = new Set();
      for (let at = area.start; at < area.end; at += 1) {
        if (show.tier[at] === 255) continue;
        counts[show.state[at]] += 1;
        tiers.add(show.tiers[show.tier[at]]);
      }
      return countsRow(area, [...tiers].join(", "), counts, area);
    });
    return [...seated, ...show.standing.map((area) => countsRow(area, show.tiers[area.tier], area.counts, null))];
  }, [show, version]);
  const columns = useMemo(() => [
    { name: "name", title: "Area", cell: (row) => (row.area
      ? html`<button type="button" class="quiet link" onClick=${() => { reveal(row.area);
      scrollTo({ top: 0, behavior: "smooth" }); }}>${row.name}</button>`
      : html`${row.name} <span class="hint">standing</span>`) },
    { name: "tiers", title: "Tiers" },
    { name: "priority", title: "Priority", right: true },
    ...["seats", "free", "held", "sold", "blocked"].map((name) => ({ name,
      title: name[0].toUpperCase() + name.slice(1), right: true, cell: (row) => number(row[name]) })),
    { name: "share", title: "Share", right: true, cell: (row) => html`<span class="meter">
      <span style=${{ width: `${100 * row.share}%` }}></span></span><span class="share">
      ${percent(row.sold, row.seats)}</span>` },
    { name: "act", title: "Select", of: () => undefined, cell: (row) => (row.area && row.seats
      ? html`<button type="button" class="quiet" aria-label=${`Select ${row.name}`} onClick=${() => select(row.area)}>
      Select</button>` : null) },
  ], [show]);
  return html`<${Panel} title="Areas" wide><${Table} id="areas" label="Areas with their counts" columns=${columns}
    rows=${rows} none="no areas" /></${Panel}>`;
}
