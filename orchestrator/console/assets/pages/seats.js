// One seat under the pointer, and the selected seats with what an operator does with them.
import { html, useEffect, useState } from "../lib/ui.js";
import { command, get } from "../lib/api.js";
import { Act, Badge, Panel } from "../lib/parts.js";
import { PART, inParts, partsOf } from "../lib/many.js";
import { counted, number, span, text } from "../lib/format.js";
import { moveQuestion, moveWords, movesOf, named, transfer, usersOf } from "./moves.js";
import { forSeats, useRecords } from "./many-seats.js";

/** Pause of the pointer before a seat is asked for. */
const PAUSE = 120;
/** Records that the page lists. */
const LISTED = 6;
/** Longest time of a hold that the page asks for, in minutes. */
const MINUTES = 600;

/** @typedef {import("./many-seats.js").Told} Told */

/** The seats of the parts that were done. @param {{seats: string[]}[]} parts */
const seatsOf = (parts) => parts.flatMap((part) => part.seats);

/** Parts that were done, in words. @param {string} done */
const saying = (done) => (parts) => `${counted(seatsOf(parts).length, "seat")} ${done}`;

/** Releases holds, one after the other. @param {string} name @param {string[]} tokens @param {Told} told */
async function releaseAll(name, tokens, told) {
  const counts = await inParts(tokens, (token) => command("SEAT.RELEASE", name, token), told,
    (count) => `${number(count)} of ${number(tokens.length)} holds are released`);
  return counts.reduce((sum, count) => sum + Number(count), 0);
}

/**
 * Gives holds another end, so many minutes from now. @param {string} name @param {string[]} tokens @param {Told} told
 */
async function extendAll(name, tokens, minutes, told) {
  await inParts(tokens, (token) => command("SEAT.EXTEND", name, token, "TTL", Math.round(Number(minutes) * 60000)),
    told, (count) => `${number(count)} of ${number(tokens.length)} holds have another end`);
  return tokens.length;
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

/**
 * The selected seats. `spread` selects all seats of their rows, areas or tiers, too; `acted` counts actions of this
 * page on sales, of which `done` tells.
 */
export function Selection({ name, show, selected, refused, can, version, now, clear, spread, acted, done }) {
  const [user, setUser] = useState("operator");
  const [minutes, setMinutes] = useState(10);
  const seats = show ? selected.map((at) => show.seat(at)).filter(Boolean) : [];
  const states = show ? selected.map((at) => show.state[at]).join("") : "";
  // Free and blocked seats beyond those that are listed have nothing to read.
  const read = seats.filter((seat, at) => at < LISTED || seat.state === "held" || seat.state === "sold");
  const records = useRecords(name, selected, read.map((seat) => seat.id), `${states} ${acted}`);
  const limit = refused ? html`<p class="trouble" role="alert">${refused}</p>` : null;
  if (!show || !selected.length) {
    return html`<${Panel} title="Selection">${limit}
      <p class="hint">Click a seat, or press Shift and drag over many. From a seat, its whole row, area or tier can
        be selected.</p></${Panel}>`;
  }
  const byState = { free: [], held: [], sold: [], blocked: [] };
  seats.forEach((seat) => byState[seat.state].push(seat.id));
  const { free, sold, blocked } = byState;
  const [held, bought] = ["held", "sold"].map((state) => records.filter((record) => record.state === state));
  const [users, buyers] = [usersOf(held), usersOf(bought)];
  const tokens = [...new Set(held.map((record) => record.token))];
  const orders = [...new Set(bought.map((record) => record.order))];
  const holds = tokens.length === 1 ? `the hold ${tokens[0]}` : counted(tokens.length, "hold");
  const order = orders.length === 1 ? orders[0] : null;
  return html`<${Panel} title=${seats.length === 1 ? seats[0].id : `${number(seats.length)} seats`}
    extra=${html`<button type="button" class="quiet" onClick=${clear}>Clear</button>`}>
    <div class="tally" data-version=${version}>
      ${Object.entries(byState).map(([state, ids]) => (ids.length
        ? html`<${Badge} tone=${state}>${number(ids.length)} ${state}</${Badge}>` : null))}
    </div>
    <ul class="records">
      ${records.slice(0, LISTED).map((record) => html`<li><b>${record.id}</b> ${record.tier}
        ${record.user ? html`<span class="fact">user ${record.user}</span>` : null}
        ${record.token ? html`<span class="fact">token ${record.token}</span>` : null}
        ${record.order ? html`<span class="fact">order ${record.order}</span>` : null}
        ${record.until ? html`<span class="fact">ends in ${span(record.until - now())}</span>` : null}</li>`)}
      ${seats.length > LISTED ? html`<li class="hint">and ${number(seats.length - LISTED)} more</li>` : null}
    </ul>
    ${limit}
    <div class="acts" role="group" aria-label="Select more">Select the whole
      ${["row", "area", "tier"].map((kind) => html`<button type="button" class="quiet"
        aria-label=${`Select the whole ${kind}`} onClick=${() => spread(selected, kind)}>${kind}</button>`)}</div>
    ${can ? html`<div class="acts">
      ${free.length ? html`
        <label>for <input value=${user} size="10" maxlength="256" onInput=${(event) => setUser(event.target.value)} />
          </label>
        <label><input type="number" min="1" max="600" value=${minutes}
          onInput=${(event) => setMinutes(Number(event.target.value))} /> min</label>
        <${Act} can=${can} disabled=${!user} ask=${`Hold ${named(free)} for ${user}, ${minutes} minutes?${
          free.length > PART ? ` These are ${number(partsOf(free).length)} holds: a hold has at most ${PART} seats.`
            : ""}`}
          act=${(told) => forSeats(free, "held", (part) => ["SEAT.PICK", name, user, "TTL", minutes * 60000, "SEATS",
            part.length, ...part], told)} tell=${saying("held")}
          undo=${(parts) => {
            const tokens = parts.map(({ reply }) => reply.token);
            const holds = tokens.length === 1 ? `the hold ${tokens[0]}` : counted(tokens.length, "hold");
            return { ask: `Release ${holds} of ${user}?`, act: (told) => releaseAll(name, tokens, told) };
          }}>Hold ${number(free.length)}</${Act}>
        <${Act} can=${can} ask=${`Block ${named(free)}? Nobody can buy them then.`}
          fields=${[{ title: "Reason: the name of their block (may be empty)" }]}
          act=${(told, block) => forSeats(free, "blocked", (part) => ["SEAT.BLOCK", name,
            ...(block ? ["NAME", block] : []), part.length, ...part], told)} tell=${saying("blocked")}
          undo=${(parts) => ({ ask: `Unblock ${named(seatsOf(parts))}?`,
            act: (told) => unblock(name, seatsOf(parts), told) })}>Block ${number(free.length)}</${Act}>` : null}
      ${blocked.length
        ? html`<${Act} can=${can} ask=${`Unblock ${named(blocked)}? They are for sale then.`}
        act=${(told) => unblock(name, blocked, told)}
        tell=${saying("unblocked")}>Unblock ${number(blocked.length)}</${Act}>` : null}
      ${tokens.length === 1 ? html`<${Act} key=${`s${tokens[0]}`} can=${can}
        fields=${[{ title: "Order (may be empty)" }]}
        ask=${`Sell the hold ${tokens[0]} of ${users}: all of its seats, also those that are not selected?`}
        words=${(order) => ["SEAT.CONFIRM", name, tokens[0], ...(order ? ["ORDER", order] : [])]}>Confirm</${Act}>`
          : null}
      ${tokens.length ? html`<${Act} key="release" can=${can}
        ask=${`Release ${holds} of ${users}? All of their seats are free then.`}
        act=${(told) => releaseAll(name, tokens, told)} tell=${(count) => `${number(count)} seats are free`}>
          ${tokens.length === 1 ? "Release" : `Release ${number(tokens.length)} holds`}</${Act}>` : null}
      ${tokens.length ? html`<${Act} key="extend" can=${can} fields=${[{ title: "Minutes from now", value: minutes }]}
        check=${(typed) => (Number(typed) > 0 && Number(typed) <= MINUTES ? "" : `1 to ${MINUTES} minutes`)}
        ask=${(typed) => `Let ${holds} of ${users} end ${typed} minutes from now?`}
        act=${(told, typed) => extendAll(name, tokens, typed, told)}
        tell=${(count) => `another end for ${counted(count, "hold")}`}>Extend</${Act}>` : null}
      ${bought.length && bought.length === sold.length ? html`<${Sold} name=${name} show=${show} can=${can}
        records=${bought} done=${done} />` : null}
      ${sold.length ? html`<${Act} can=${can} tone="danger"
        ask=${`Refund ${named(sold)} of ${buyers}${orders.filter(Boolean).length
        ? `, ${orders.filter(Boolean).length === 1 ? "order" : "orders"} ${orders.filter(Boolean).join(", ")}`
        : ""}? They are free then, and may be sold to others.`}
        act=${(told) => forSeats(sold, "refunded", (part) => ["SEAT.REFUND", name, ...(order ? ["ORDER", order] : []),
          part.length, ...part], told)} tell=${saying("refunded")}>Refund ${number(sold.length)}</${Act}>` : null}
    </div>` : html`<p class="hint">Log in as an operator to hold, sell, refund or block these seats.</p>`}
  </${Panel}>`;
}

/** Makes blocked seats free. @param {string} name @param {string[]} ids @param {Told} told */
const unblock = (name, ids, told) => forSeats(ids, "unblocked",
  (part) => ["SEAT.UNBLOCK", name, part.length, ...part], told);

/** What an operator does with sold seats and their sales: they go to other seats, or to another user. */
function Sold({ name, show, can, records, done }) {
  const users = usersOf(records), ids = records.map((record) => record.id);
  const seats = ids.map((id) => show.find(id));
  const [first, second] = seats;
  const plan = (to) => movesOf(show, seats, first, show.find(to));
  const swap = seats.length === 2 ? movesOf(show, [first], first, second) : null;
  const guess = `Move ${named(ids)} of ${users}: ${ids[0]} to which seat? The others keep their places beside it.`;
  const isKnown = (to) => show.find(to) >= 0 && to !== ids[0];
  return html`
    <${Act} key="move" can=${can} done=${done} fields=${[{ title: `Seat for ${ids[0]}` }]}
      check=${(to) => (isKnown(to) ? plan(to).wrong : `there is no other seat '${to}'`)}
      ask=${(to) => (isKnown(to) && !plan(to).wrong ? moveQuestion(plan(to), users, "") : guess)}
      words=${(to) => moveWords(name, plan(to))}>Move ${number(records.length)}</${Act}>
    ${swap && !swap.wrong ? html`<${Act} key="swap" can=${can} done=${done} words=${() => moveWords(name, swap)}
      ask=${`Swap ${ids[0]} of ${records[0].user} and ${ids[1]} of ${records[1].user}?`}>Swap</${Act}>` : null}
    <${Act} key="transfer" can=${can} done=${done}
      fields=${[{ title: "To user" }, { title: "Other order (may be empty)" }]}
      check=${(to) => (to ? "" : "the user is missing")}
      ask=${(to) => `Give ${named(ids)} of ${users} to ${to || "another user"}?`}
      act=${(told, to, order) => transfer(name, records, to, order, told)}
      tell=${saying("transferred")}>Transfer ${number(records.length)}</${Act}>`;
}
