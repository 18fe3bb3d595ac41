// The waiting list of a show: who waits, since when and for what; an operator adds users and takes them off.
import { html, useMemo, useState } from "../lib/ui.js";
import { Act, Panel } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { number, span, text, time } from "../lib/format.js";

export function Waiting({ name, show, can, waiting, now }) {
  const columns = useMemo(() => [
    { name: "user", title: "User" },
    { name: "count", title: "Seats", right: true },
    { name: "tier", title: "Tier", cell: (row) => text(row.tier) },
    { name: "priority", title: "Priority", right: true },
    { name: "since", title: "Since", cell: (row) => time(row.since) },
    { name: "until", title: "Ends in", right: true, cell: (row) => span(row.until - now()) },
    { name: "token", title: "Token" },
    ...(can ? [{ name: "act", title: "Action", of: () => "",
      cell: (row) => html`<${Act} can=${can} ask=${`Take ${row.user} off the waiting list?`}
      words=${() => ["SEAT.UNWAIT", name, row.token]}>Take off</${Act}>` }] : []),
  ], [name, can]);
  const { items, more } = waiting;
  return html`<${Panel} title="Waiting list" wide id="waiting"
    extra=${html`<span class="hint">${more ? `the first ${number(items.length)}` : `${number(items.length)} waiting`}
    </span>`}>
    ${items.length ? html`<${Table} id="waiting" label="Users who wait for seats" columns=${columns} rows=${items} />`
      : html`<p class="hint">Nobody waits. A user who asks for seats that are not free can wait;
        free seats go to those who wait first.</p>`}
    ${can && show ? html`<${Join} name=${name} show=${show} />` : null}
  </${Panel}>`;
}

/** Gives a user the best free seats, or a place on the list. */
function Join({ name, show }) {
  const [wanted, set] = useState({ user: "", count: 2, tier: "", hours: 2, minutes: 10, priority: 0 });
  const input = (field, more) => html`<input ...${more} value=${wanted[field]}
    onInput=${(event) => set({ ...wanted, [field]: event.target.value })} />`;
  const words = () => [
    "SEAT.WAIT", name, wanted.user, wanted.count, "TTL", wanted.hours * 3600000, "OFFER", wanted.minutes * 60000,
    ...(wanted.tier ? ["TIER", wanted.tier] : []), "PRIORITY", wanted.priority,
  ];
  return html`<div class="acts form">
    <label>user ${input("user", { size: 12, maxlength: 256 })}</label>
    <label>seats ${input("count", { type: "number", min: 1, max: 100 })}</label>
    <label>tier <select onChange=${(event) => set({ ...wanted, tier: event.target.value })}>
      <option value="">any</option>${show.tiers.map((tier) => html`<option value=${tier}>${tier}</option>`)}</select>
        </label>
    <label>waits ${input("hours", { type: "number", min: 1, max: 1000 })} h</label>
    <label>holds ${input("minutes", { type: "number", min: 1, max: 600 })} min</label>
    <label>priority ${input("priority", { type: "number" })}</label>
    <${Act} can disabled=${!wanted.user} words=${words}
      ask=${`Hold the best ${wanted.count} free seats for ${wanted.user}, ${wanted.minutes} minutes? If they are not `
        + `free, ${wanted.user} waits for ${wanted.hours} hours.`}
      tell=${(result) => (result.state === "offered" ? `${wanted.user} has seats`
        : `${wanted.user} waits as number ${result.position}`)}>Serve or wait</${Act}>
  </div>`;
}
