// All shows: how much of each is sold, and a search through all of them.
import { html, useEffect, useMemo, useState } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { go, link } from "../lib/address.js";
import { NoText, Panel, pagesOf } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { title } from "../lib/title.js";
import { useAsk, useLatest } from "../lib/live.js";
import { counted, number, percent, time } from "../lib/format.js";

/** Shows that are counted with one request. */
const COUNTED = 200;
/** Interval at which the shows are counted, in milliseconds. */
const INTERVAL = 10000;

/** Counts shows, one request after the other. @param {string[]} keys */
async function count(keys) {
  const all = new Map();
  for (let at = 0; at < keys.length; at += COUNTED) {
    const totals = await get("show/totals", { keys: JSON.stringify(keys.slice(at, at + COUNTED)) });
    totals.forEach((show) => all.set(show.key, show));
  }
  return all;
}

export function Shows({ keys, more }) {
  // Who comes back from a show sees the title of the list again.
  useEffect(() => title("Shows · Allot"), []);
  const shows = pagesOf(keys, "show");
  const noText = keys.filter((entry) => entry.kind === "show" && !entry.is_text);
  const { answer, wrong } = useAsk(() => count(shows), [shows.join("\n")], INTERVAL);
  const rows = useMemo(() => shows.map((key) => {
    const { free, held, sold, blocked, next_end: next } = answer?.get(key) || {};
    const seats = free === undefined ? null : free + held + sold + blocked;
    return { key, free, held, sold, blocked, seats, next, share: seats ? sold / seats : 0 };
  }), [answer, shows.join("\n")]);
  const columns = useMemo(() => [
    { name: "key", title: "Show", cell: (row) => html`<a href=${link("show", { key: row.key })}>${row.key}</a>` },
    ...["seats", "free", "held", "sold", "blocked"].map((name) => ({ name,
      title: name[0].toUpperCase() + name.slice(1), right: true, cell: (row) => number(row[name]) })),
    { name: "share", title: "Share", right: true, cell: (row) => html`<span class="meter">
      <span style=${{ width: `${100 * row.share}%` }}></span></span><span class="share">
      ${percent(row.sold, row.seats)}</span>` },
    // Shows without a hold are behind those with one.
    { name: "next", title: "Next hold ends", right: true, of: (row) => row.next ?? Infinity,
      cell: (row) => (row.next ? time(row.next) : "–") },
  ], []);
  return html`<h1 class="away">Shows</h1>
    <${Search} shows=${shows} />
    <${Panel} title=${`${number(shows.length)} shows${more.includes("show") ? ", and more that are not listed" : ""}`}
      wide>
      <${Table} id="shows" label="Shows" columns=${columns} rows=${rows} none="no shows" />
      ${wrong ? html`<p class="hint">They cannot be counted: ${wrong}</p>` : null}
      ${noText.length ? html`<ul class="plan">${noText.map((entry) => html`<li><${NoText} of=${entry.key} /></li>`)}
        </ul>` : null}
    </${Panel}>`;
}

/** Looks for a user, a token or an order in all shows, one after the other. @param {{shows: string[]}} props */
function Search({ shows }) {
  const [state, set] = useState({ text: "", done: 0, found: [], wrong: "" });
  const latest = useLatest();
  const search = async (event) => {
    event.preventDefault();
    const text = String(new FormData(event.target).get("text") || "").trim();
    if (!text) return;
    const found = [], isWanted = latest();
    for (const [at, key] of shows.entries()) {
      // Somebody looks for something else, or the page has gone.
      if (!isWanted()) return;
      set({ text, done: at, found: [...found], wrong: "" });
      try {
        const { seats, more } = await get("show/find", { key, text });
        if (seats.length) found.push({ key, seats, more });
      } catch (error) {
        if (error.code === "NOKEY") continue;
        if (isWanted()) set({ text, done: at, found, wrong: error.message });
        return;
      }
    }
    if (isWanted()) set({ text, done: shows.length, found, wrong: "" });
  };
  const { text, done, found, wrong } = state;
  return html`<form class="bar search" role="search" onSubmit=${search}>
    <input type="search" name="text" placeholder="User, token or order"
      aria-label="Find a user, a token or an order in all shows" />
    <button type="submit">Find in all shows</button>
    ${text ? html`<div role="status">
      ${wrong ? html`<p class="trouble">${wrong}</p>` : html`<p class="hint">
        ${text}: ${found.length ? "" : done < shows.length ? "nothing yet" : "nothing found"}
        ${done < shows.length ? ` after ${number(done)} of ${number(shows.length)} shows` : ""}</p>`}
      <ul class="plan">${found.map(({ key, seats, more }) => html`<li>
        <button type="button" class="quiet" onClick=${() => go(link("show", { key, find: text }))}>${key}</button>
        ${more ? `${number(seats.length)} and more seats` : counted(seats.length, "seat")}</li>`)}</ul></div>` : null}
  </form>`;
}
