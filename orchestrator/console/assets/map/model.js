// A show in memory: every position with its label, tier and state, numbered as the event stream numbers them.

export const BREAK = 0, FREE = 1, HELD = 2, SOLD = 3, BLOCKED = 4;
export const STATES = ["break", "free", "held", "sold", "blocked"];
const OF_CHARACTER = { " ": BREAK, ".": FREE, h: HELD, s: SOLD, x: BLOCKED };

/** @param {string} item @returns {(string | null)[]} the labels of an item of the short form; null is a break */
function labels(item) {
  if (item === "|") return [null];
  const range = /^(\d+)-(\d+)$/.exec(item);
  if (!range) return [item];
  const [from, to] = [Number(range[1]), Number(range[2])];
  const step = from <= to ? 1 : -1;
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, at) => String(from + at * step));
}

/**
 * The positions of a row of a plan. @returns {{label: string, tier: string, flags: string[]}[]} with null for a break
 */
function positions(row) {
  if (typeof row.seats === "string") {
    return row.seats.split(",").flatMap(labels).map((label) => label === null ? null
      : { label, tier: row.tier, flags: [] });
  }
  return row.seats.map((seat) => seat && { label: seat.label, id: seat.id, tier: seat.tier ?? row.tier,
    flags: seat.flags || [] });
}

/** Where the positions of a row are, if the plan says so. @returns {[number, number][] | null} */
function placesIn(row, count) {
  if (row.points) return row.points;
  if (!row.at || !row.step) return null;
  const [[x, y], [dx, dy]] = [row.at, row.step];
  return Array.from({ length: count }, (_, at) => [x + at * dx, y + at * dy]);
}

/** The id of a seat: its own, or that of its place. */
const idOf = (area, row, seat) => seat.id ?? `${area.id}-${row.label}-${seat.label}`;

/**
 * @typedef {{label: string, start: number, count: number, seats: ({label: string, id?: string, flags: string[]} |
 *   null)[], places: [number, number][] | null}} Row
 * @typedef {{id: string, name: string, priority: number, rows: Row[], start: number, end: number, widest: number,
 *   seats: number, focus?: [number, number]}} Area
 * @typedef {{at: number, id: string, name: string, priority: number, tier: number, counts: number[]}} StandingArea
 * its number in the plan, and its places by state
 */

/** The places of a standing area by state, from its four numbers. */
const placesOf = (drawn) => [0, ...(drawn ?? []).map(Number)];

/** A show: its plan, and the state of every position. */
export class Show {
  /** @param {{seq: number, now: number, plan: any, areas: string[][]}} map the answer of /api/v1/show/map */
  constructor(map) {
    this.seq = map.seq;
    /** What all look at. @type {[number, number] | undefined} */
    this.focus = map.plan.focus;
    /** @type {Area[]} */
    this.areas = [];
    /** Areas that are not drawn. @type {StandingArea[]} */
    this.standing = [];
    /** @type {string[]} */
    this.tiers = [];
    const tiers = new Map();
    const states = [], ofTier = [], ofRow = [];
    /** @type {{area: Area, row: Row}[]} */
    this.rows = [];
    map.plan.areas.forEach((planned, at) => {
      if (planned.standing) {
        if (!tiers.has(planned.tier)) tiers.set(planned.tier, tiers.size);
        this.standing.push({ at, id: planned.id, name: planned.name || planned.id, priority: planned.priority ?? 1,
          tier: tiers.get(planned.tier), counts: placesOf(map.areas[at]) });
        return;
      }
      const area = { id: planned.id, name: planned.name || planned.id, priority: planned.priority ?? 1, rows: [],
        start: states.length, end: 0, widest: 0, seats: 0, focus: planned.focus };
      // SEAT.PLAN and SEAT.MAP list the rows in one order.
      planned.rows.forEach((row, place) => {
        const seats = positions(row);
        const drawn = map.areas[at]?.[place] ?? "";
        const made = { label: row.label, start: states.length, count: seats.length, seats,
          places: placesIn(row, seats.length) };
        seats.forEach((seat, position) => {
          states.push(OF_CHARACTER[drawn[position]] ?? BREAK);
          if (seat && !tiers.has(seat.tier)) tiers.set(seat.tier, tiers.size);
          ofTier.push(seat ? tiers.get(seat.tier) : 255);
          ofRow.push(this.rows.length);
          if (seat) area.seats += 1;
        });
        area.rows.push(made);
        area.widest = Math.max(area.widest, seats.length);
        this.rows.push({ area, row: made });
      });
      area.end = states.length;
      this.areas.push(area);
    });
    this.tiers = [...tiers.keys()];
    this.state = Uint8Array.from(states);
    this.tier = Uint8Array.from(ofTier, (tier) => Math.min(tier, 255));
    this.row = Uint32Array.from(ofRow);
    this.size = states.length;
    this.recount();
  }

  recount() {
    /** Seats by tier and state. */
    this.counts = this.tiers.map(() => [0, 0, 0, 0, 0]);
    for (let at = 0; at < this.size; at += 1) {
      if (this.tier[at] !== 255) this.counts[this.tier[at]][this.state[at]] += 1;
    }
    for (const { tier, counts } of this.standing) counts.forEach((places,
      state) => { this.counts[tier][state] += places; });
  }

  /**
   * Takes over changes. Returns the changed positions; null if messages are missing in between.
   * @param {{seq: number, free: number[], held: number[], sold: number[], blocked: number[], standing: [number,
   *   string[]][]}} changes
   */
  change(changes) {
    if (changes.seq <= this.seq) return [];
    if (changes.seq !== this.seq + 1) return null;
    this.seq = changes.seq;
    const changed = [];
    const lists = [changes.free, changes.held, changes.sold, changes.blocked];
    for (const [index, state] of [FREE, HELD, SOLD, BLOCKED].entries()) {
      for (const at of lists[index]) {
        const tier = this.tier[at];
        if (tier === undefined || tier === 255) continue;
        this.counts[tier][this.state[at]] -= 1;
        this.counts[tier][state] += 1;
        this.state[at] = state;
        changed.push(at);
      }
    }
    for (const [at, drawn] of changes.standing || []) {
      const area = this.standing.find((area) => area.at === at);
      if (!area) continue;
      const counts = placesOf(drawn);
      counts.forEach((places, state) => { this.counts[area.tier][state] += places - area.counts[state]; });
      area.counts = counts;
    }
    return changed;
  }

  /** The seat at a position. @param {number} at */
  seat(at) {
    const found = this.rows[this.row[at]];
    const seat = found?.row.seats[at - found.row.start];
    if (!seat) return null;
    return {
      at, id: idOf(found.area, found.row, seat), area: found.area, row: found.row.label, label: seat.label,
      flags: seat.flags || [], tier: this.tiers[this.tier[at]], state: STATES[this.state[at]],
    };
  }

  /**
   * All seats of the rows, areas or tiers of these seats. @param {number[]} seats
   * @param {"row" | "area" | "tier"} kind
   */
  alike(seats, kind) {
    const of = (at) => (kind === "tier" ? this.tier[at] : kind === "row" ? this.row[at]
      : this.areas.indexOf(this.rows[this.row[at]].area));
    const wanted = new Set(seats.map(of)), found = [];
    for (let at = 0; at < this.size; at += 1) if (this.tier[at] !== 255 && wanted.has(of(at))) found.push(at);
    return found;
  }

  /** The position of a seat by its id; -1 if there is none. @param {string} id */
  find(id) {
    if (!this.ids) {
      /** Positions by the ids of seats; made when a seat is looked for. */
      this.ids = new Map();
      for (const { area, row } of this.rows) {
        row.seats.forEach((seat, place) => { if (seat) this.ids.set(idOf(area, row, seat), row.start + place); });
      }
    }
    return this.ids.get(id) ?? -1;
  }
}
