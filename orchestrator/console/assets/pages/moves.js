// Sold seats that go to other places or to other users: what would become of them, and the question before it.
import { html, useEffect, useRef, useState } from "../lib/ui.js";
import { command } from "../lib/api.js";
import { Panel, Question } from "../lib/parts.js";
import { counted, number } from "../lib/format.js";
import { FREE, SOLD } from "../map/model.js";
import { forSeats, recordsOf } from "./many-seats.js";

/** Seats and users that a question names. */
const NAMED = 6;

/** Seats in words. @param {string[]} ids */
export const named = (ids) => (ids.length > NAMED ? `${number(ids.length)} seats (${ids.slice(0,
  NAMED).join(", ")}, …)` : ids.join(", "));

/** Users in words. @param {any[]} records of seats */
export function usersOf(records) {
  const users = [...new Set(records.map((record) => record.user))];
  return users.length > NAMED ? `${users.slice(0, NAMED).join(", ")} and ${number(users.length - NAMED)} others`
    : users.join(", ");
}

/**
 * The moves by which sold seats keep their places beside each other when one of them goes to another seat. Sales that
 * are there already get the seats that become free. @param {import("../map/model.js").Show} show
 * @param {number[]} seats @param {number} from @param {number} to
 * @returns {{moves: [string, string][], back: [string, string][], isOtherTier: boolean, wrong: string}} `back` are
 *   the moves of the sales that are there already; `wrong` says why it cannot be
 */
export function movesOf(show, seats, from, to) {
  const rowOf = (at) => show.rows[show.row[at]];
  const place = (at) => at - rowOf(at).row.start;
  const [down, right] = [show.row[to] - show.row[from], place(to) - place(from)];
  const plan = { moves: [], back: [], isOtherTier: false, wrong: "" };
  const id = (at) => show.seat(at).id;
  /** @type {Map<number, number>} */
  const sources = new Map();
  for (const seat of seats) {
    const row = show.rows[show.row[seat] + down];
    const target = row ? row.row.start + place(seat) + right : -1;
    const isThere = row && target >= row.row.start && target < row.row.start + row.row.count
      && show.tier[target] !== 255 && (row.area === rowOf(to).area) === (rowOf(seat).area === rowOf(from).area);
    if (!isThere) return { ...plan, wrong: `there is no seat for ${id(seat)} so far from its place` };
    sources.set(target, seat);
  }
  const leaves = new Set(seats);
  const pairs = [...sources].map(([target, seat]) => [seat, target]);
  for (const target of sources.keys()) {
    if (leaves.has(target) || show.state[target] === FREE) continue;
    if (show.state[target] !== SOLD) return { ...plan, wrong: `${id(target)} is ${show.seat(target).state}` };
    // Back along the chain of seats that move up, to the one that nobody has then.
    let free = sources.get(target);
    while (sources.has(free)) free = sources.get(free);
    pairs.push([target, free]);
  }
  const named = pairs.map(([one, other]) => /** @type {[string, string]} */ ([id(one), id(other)]));
  const isOtherTier = pairs.some(([one, other]) => show.tier[one] !== show.tier[other]);
  return { moves: named.slice(0, seats.length), back: named.slice(seats.length), isOtherTier, wrong: "" };
}

/**
 * The command of moves. @param {string} name @param {ReturnType<typeof movesOf>} plan
 * @returns {import("../lib/parts.js").Words}
 */
export function moveWords(name, { moves, back, isOtherTier }) {
  const all = [...moves, ...back];
  return ["SEAT.MOVE", name, ...(isOtherTier ? ["ANYTIER"] : []), all.length, ...all.flat()];
}

/** Moves in words. @param {ReturnType<typeof movesOf>} plan @param {string} users @param {string} others */
export function moveQuestion({ moves, back, isOtherTier }, users, others) {
  const [from, to] = [moves.map(([seat]) => seat), moves.map(([, seat]) => seat)];
  const swap = back.length ? ` ${named(back.map(([seat]) => seat))}${others ? ` of ${others}` : ""} comes to ${named(
    back.map(([, seat]) => seat))} in exchange.` : "";
  const wait = back.length < moves.length ? " Seats that become free are offered to those who wait." : "";
  const tier = isOtherTier ? " Seats are of another tier; nobody pays or gets anything." : "";
  return `Move ${named(from)} of ${users} to ${named(to)}?${swap}${wait}${tier}`;
}

/**
 * Gives sold seats to a user, part by part. @param {string} name @param {any[]} records @param {string} user
 * @param {string} order another order; empty for that of the sale @param {import("./many-seats.js").Told} told
 */
export function transfer(name, records, user, order, told) {
  const orderOf = new Map(records.map((record) => [record.id, record.order]));
  return forSeats([...orderOf.keys()], "transferred", (ids) => {
    const orders = [...new Set(ids.map((id) => orderOf.get(id)))];
    // Seats that were sold under another order meanwhile are refused.
    const known = orders.length === 1 && orders[0] ? ["ORDER", orders[0]] : [];
    return ["SEAT.TRANSFER", name, user, ...known, ...(order ? ["TO", "ORDER", order] : []), "SEATS", ids.length,
      ...ids];
  }, told);
}

/** Sold seats were dropped on another seat: asks what that means, and does it. */
export function Dropped({ name, show, dropped: { seats, from, to }, done, end }) {
  const [{ records, said }, set] = useState({ records: /** @type {any[] | null} */ (null), said: "" });
  // What changes meanwhile is refused by the server.
  const [plan] = useState(() => movesOf(show, seats, from, to));
  const all = [...seats.map((at) => show.seat(at).id), ...plan.back.map(([seat]) => seat)];
  useEffect(() => {
    if (plan.wrong) set({ records: null, said: `Nothing is moved: ${plan.wrong}.` });
    else recordsOf(name, all).then((records) => set({ records, said: "" }),
      (error) => set({ records: null, said: error.message }));
  }, []);
  const isSent = useRef(false);
  if (said) return html`<${Panel} title="Move" extra=${html`<button type="button" class="quiet"
    onClick=${end}>Close</button>`}><p role="status">${said}</p></${Panel}>`;
  if (!records) return null;
  /** @param {() => Promise<number>} act which gives how many sales it changed */
  const run = (act) => {
    // A swap that is sent twice swaps the seats back.
    if (isSent.current) return;
    isSent.current = true;
    act().then((count) => set({ records: null, said: `${counted(count, "sale")} went to another place or user.` }),
      (error) => set({ records: null, said: error.message })).then(done);
  };
  const [sold, others] = [records.slice(0, seats.length), records.slice(seats.length)];
  const other = others.find((record) => record.id === show.seat(to).id)?.user;
  const give = other && sold.some((record) => record.user !== other) ? [{ title: `Give to ${other}`,
    yes: (order) => run(() => transfer(name, sold, other, order, () => {}).then(() => sold.length)) }] : [];
  const ask = moveQuestion(plan, usersOf(sold), usersOf(others));
  const more = give.length ? `\n\nOr give ${named(sold.map((record) => record.id))} of ${usersOf(sold)} to ${other
  }, with the order of the sale or another one?` : "";
  return html`<${Question} ask=${ask + more} no=${end} fields=${give.length
    ? [{ title: "Other order, if given to the user (may be empty)" }] : []}
    answers=${[{ title: plan.back.length ? "Swap" : "Move",
      yes: () => run(() => command(...moveWords(name, plan)).then(Number)) }, ...give]} />`;
}
