// One seat under the pointer, and the selected seats with what an operator does with them.
import { html, useEffect, useState } from "../lib/ui.js";
import { command, get } from "../lib/api.js";
import { useAsk } from "../lib/live.js";
import { Act, Badge, Panel } from "../lib/parts.js";
import { number, span, text } from "../lib/format.js";

/** Pause of the pointer before a seat is asked for. */
const PAUSE = 120;
/** Records that the page asks for: of all seats that can be selected. */
const RECORDS = 500;
/** Seats and users that a question names. */
const NAMED = 6;

/** Seats in words. @param {string[]} ids */
const named = (ids) => (ids.length > NAMED ? `${number(ids.length)} seats (${ids.slice(0, NAMED).join(", ")}, …)`
  : ids.join(", "));

/**
 * Releases holds, one after the other. Gives how many seats are free then. @param {string} name @param {string[]}
 * tokens
 */
async function releaseAll(name, tokens) {
  let count = 0;
  for (const token of tokens) count += Number(await command("SEAT.RELEASE", name, token));
  return count;
}

/** The record of a seat, with its place on the map. */
export function SeatCard({ name, show, hover, now, room }) {
  const seat = show.seat(hover.at);
  const [record, setRecord] = useState(null);
  const state = show.state[hover.at];
  useEffect(() => {
    setRecord(null);
    if (!seat) return undefined;
    let live = true;
    const timer = setTimeout(() => {
      get("show/seats", { key: name, seats: JSON.stringify([seat.id]) }).then(([found]) => live && setRecord(found),
        () => {});
    }, PAUSE);
    return () => { live = false; clearTimeout(timer); };
  }, [hover.at, state]);
  if (!seat) return null;
  const style = { left: `${Math.min(hover.x + 14, (room?.clientWidth || 400) - 220)}px`,
    top: `${Math.max(6, Math.min(hover.y + 14, (room?.clientHeight || 400) - 150))}px` };
  const facts = [["user", record?.user], ["token", record?.token], ["order", record?.order],
    ["until", record?.until && `in ${span(record.until - now())}`], ["flags", seat.flags.length ? seat.flags : null],
    ["block", record?.block]];
  return html`<div class="card" style=${style} role="status">
    <div class="title">${seat.area.name}</div>
    <div>row ${seat.row}, seat <b>${seat.label}</b></div>
    <div class="line"><${Badge} tone=${seat.state}>${seat.state}</${Badge}> <span>${seat.tier}</span></div>
    ${facts.filter(([, value]) => value).map(([title, value]) => html`<div class="fact"><span>${title}
      </span> ${text(value)}</div>`)}
    <div class="id">${seat.id}</div>
  </div>`;
}

/** The selected seats. */
export function Selection({ name, show, selected, refused, can, version, now, clear }) {
  const [user, setUser] = useState("operator");
  const [minutes, setMinutes] = useState(10);
  const states = show ? selected.map((at) => show.state[at]).join("") : "";
  const read = async () => {
    const ids = selected.slice(0, RECORDS).map((at) => show?.seat(at)?.id).filter(Boolean);
    return ids.length ? get("show/seats", { key: name, seats: JSON.stringify(ids) }) : [];
  };
  const records = useAsk(read, [selected, states]).answer || [];
  const limit = refused ? html`<p class="trouble" role="alert">${refused}</p>` : null;
  if (!show || !selected.length) {
    return html`<${Panel} title="Selection">${limit}
      <p class="hint">Click a seat, or press Shift and drag over many.</p></${Panel}>`;
  }
  const seats = selected.map((at) => show.seat(at)).filter(Boolean);
  const ids = (state) => seats.filter((seat) => seat.state === state).map((seat) => seat.id);
  const counted = (state) => [ids(state).length, ...ids(state)];
  const usersOf = (state) => {
    const users = records.filter((record) => record.state === state).map((record) => record.user);
    return [...new Set(users)].slice(0, NAMED);
  };
  const [users, buyers] = [usersOf("held"), usersOf("sold")];
  const tokens = [...new Set(records.filter((record) => record.state === "held").map((record) => record.token))];
  const orders = [...new Set(records.filter((record) => record.state === "sold").map((record) => record.order))];
  const sold = ids("sold");
  const order = orders.length === 1 ? orders[0] : null;
  return html`<${Panel} title=${seats.length === 1 ? seats[0].id : `${number(seats.length)} seats`}
    extra=${html`<button type="button" class="quiet" onClick=${clear}>Clear</button>`}>
    <div class="tally" data-version=${version}>
      ${["free", "held", "sold", "blocked"].map((state) => (ids(state).length
        ? html`<${Badge} tone=${state}>${ids(state).length} ${state}</${Badge}>` : null))}
    </div>
    <ul class="records">
      ${records.slice(0, 6).map((record) => html`<li><b>${record.id}</b> ${record.tier}
        ${record.user ? html`<span class="fact">user ${record.user}</span>` : null}
        ${record.token ? html`<span class="fact">token ${record.token}</span>` : null}
        ${record.order ? html`<span class="fact">order ${record.order}</span>` : null}
        ${record.until ? html`<span class="fact">ends in ${span(record.until - now())}</span>` : null}</li>`)}
      ${seats.length > 6 ? html`<li class="hint">and ${number(seats.length - 6)} more</li>` : null}
    </ul>
    ${limit}
    ${can ? html`<div class="acts">
      ${ids("free").length ? html`
        <label>for <input value=${user} size="10" maxlength="256" onInput=${(event) => setUser(event.target.value)} />
          </label>
        <label><input type="number" min="1" max="600" value=${minutes}
          onInput=${(event) => setMinutes(Number(event.target.value))} /> min</label>
        <${Act} can=${can} disabled=${!user} ask=${`Hold ${named(ids("free"))} for ${user}, ${minutes} minutes?`}
          words=${() => ["SEAT.PICK", name, user, "TTL", minutes * 60000, "SEATS",
            ...counted("free")]}>Hold ${ids("free").length}</${Act}>
        <${Act} can=${can} ask=${`Block ${named(ids("free"))}? Nobody can buy them then.`}
          words=${() => ["SEAT.BLOCK", name, ...counted("free")]}>Block ${ids("free").length}</${Act}>` : null}
      ${ids("blocked").length
        ? html`<${Act} can=${can} ask=${`Unblock ${named(ids("blocked"))}? They are for sale then.`}
        words=${() => ["SEAT.UNBLOCK", name, ...counted("blocked")]}>Unblock ${ids("blocked").length}</${Act}>` : null}
      ${tokens.length === 1 ? html`<${Act} key=${`s${tokens[0]}`} can=${can} type="Order (may be empty)"
        ask=${`Sell the hold ${tokens[0]} of ${users.join(", ")}: all of its seats, also those that are not selected?`}
        words=${(order) => ["SEAT.CONFIRM", name, tokens[0], ...(order ? ["ORDER", order] : [])]}>Confirm</${Act}>`
          : null}
      ${tokens.length ? html`<${Act} key="release" can=${can}
        ask=${`Release ${tokens.length === 1 ? `the hold ${tokens[0]}`
        : `${number(tokens.length)} holds`} of ${users.join(", ")}? All of their seats are free then.`}
        act=${() => releaseAll(name, tokens)} tell=${(count) => `${number(count)} seats are free`}>
          ${tokens.length === 1 ? "Release" : `Release ${number(tokens.length)} holds`}</${Act}>` : null}
      ${sold.length ? html`<${Act} can=${can} tone="danger"
        ask=${`Refund ${named(sold)} of ${buyers.join(", ")}${orders.filter(Boolean).length
        ? `, ${orders.filter(Boolean).length === 1 ? "order" : "orders"} ${orders.filter(Boolean).join(", ")}`
        : ""}? They are free then, and may be sold to others.`}
        words=${() => ["SEAT.REFUND", name, ...(order ? ["ORDER", order] : []),
          ...counted("sold")]}>Refund ${sold.length}</${Act}>` : null}
    </div>` : html`<p class="hint">Log in as an operator to hold, sell, refund or block these seats.</p>`}
  </${Panel}>`;
}
