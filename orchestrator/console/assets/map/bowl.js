// A stadium: rings of blocks around a pitch.

/** Distance between two rows, and between two rings. */
const ROW = 1.5, RING = 5;
/** Part of a block's share of the ring that is aisle. */
const AISLE = 0.05;
/** Widest distance of two neighbours. */
const WIDEST = 2.2;

/** The rings of a show: blocks whose ids begin with the same letters, the innermost first. */
export function rings(areas) {
  const found = new Map();
  for (const area of areas) {
    const name = area.id.replace(/[\d].*$/s, "");
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(area);
  }
  const groups = [...found.values()];
  // Names that make no rings: as many rings as keep a ring's blocks near thirty.
  if (groups.length > 6 || groups.some((group) => group.length < 8)) {
    const count = Math.max(1, Math.round(areas.length / 36));
    const each = Math.ceil(areas.length / count);
    return Array.from({ length: count }, (_, at) => areas.slice(at * each,
      (at + 1) * each)).filter((group) => group.length);
  }
  return groups;
}

/** A rounded rectangle that is walked by its length, and its normals. */
export class Track {
  /** @param {number} length of the whole way */
  constructor(length) {
    // Sides in the proportion of a football pitch; the corners take the rest.
    const radius = length * 0.115;
    const sides = length - 2 * Math.PI * radius;
    this.length = length;
    this.radius = radius;
    this.long = sides * 0.31;
    this.short = sides * 0.19;
  }

  /** The point at this part of the way, clockwise from the left end of the upper side, moved outwards. */
  at(part, out) {
    const { radius, long, short } = this;
    const quarter = (Math.PI * radius) / 2;
    let way = (((part % 1) + 1) % 1) * this.length;
    const [w, h] = [long / 2, short / 2];
    const straight = [[-w, -h - radius, 1, 0, 0, -1, long], [w + radius, -h, 0, 1, 1, 0, short],
      [w, h + radius, -1, 0, 0, 1, long], [-w - radius, h, 0, -1, -1, 0, short]];
    const corner = [[w, -h, -Math.PI / 2], [w, h, 0], [-w, h, Math.PI / 2], [-w, -h, Math.PI]];
    for (let side = 0; side < 4; side += 1) {
      const [x, y, dx, dy, nx, ny, length] = straight[side];
      if (way <= length) return { x: x + dx * way + nx * out, y: y + dy * way + ny * out, angle: Math.atan2(dy, dx),
        stretch: 1 };
      way -= length;
      if (way <= quarter) {
        const [cx, cy, from] = corner[side];
        const turn = from + way / radius;
        return { x: cx + Math.cos(turn) * (radius + out), y: cy + Math.sin(turn) * (radius + out),
          angle: turn + Math.PI / 2, stretch: (radius + out) / radius };
      }
      way -= quarter;
    }
    return this.at(0, out);
  }
}

/** @param {import("./model.js").Show} show @param {import("./layout.js").Layout} made */
export function bowl(show, made) {
  const all = rings(show.areas);
  // The way is as long as the inner ring's middle rows, so that their seats are one unit apart.
  const middle = all[0].reduce((sum, area) => sum + area.rows.reduce((rows, row) => rows + row.count,
    0) / area.rows.length, 0);
  const track = new Track(middle * (1 + AISLE));
  let out = 0;
  for (const ring of all) {
    const depth = Math.max(...ring.map((area) => area.rows.length));
    const total = ring.reduce((sum, area) => sum + area.widest, 0);
    let from = 0;
    for (const area of ring) {
      const share = area.widest / total;
      place(area, track, from, share, out, made);
      from += share;
    }
    out += depth * ROW + RING;
  }
  pitch(track, made);
}

function place(area, track, from, share, out, made) {
  const middle = from + share / 2;
  area.rows.forEach((row, at) => {
    const away = out + at * ROW;
    const stretch = track.at(middle, away).stretch;
    const room = share * (1 - AISLE) * track.length * stretch;
    const pitch = Math.min(WIDEST, room / row.count);
    const step = pitch / (track.length * stretch);
    for (let seat = 0; seat < row.count; seat += 1) {
      // From the inside of the bowl the first seat is on the left.
      const point = track.at(middle + (seat - (row.count - 1) / 2) * step, away);
      const position = row.start + seat;
      made.x[position] = point.x;
      made.y[position] = point.y;
      made.angle[position] = point.angle;
      made.pitch[position] = Math.min(pitch, ROW);
    }
  });
  outline(area, track, middle, share, out, made);
}

function outline(area, track, middle, share, out, made) {
  const inner = out - 0.9, outer = out + (area.rows.length - 1) * ROW + 0.9;
  const half = (share * (1 - AISLE * 0.35)) / 2, path = [];
  const steps = 8;
  for (let at = 0; at <= steps; at += 1) push(path, track.at(middle + half * ((2 * at) / steps - 1), inner));
  for (let at = steps; at >= 0; at -= 1) push(path, track.at(middle + half * ((2 * at) / steps - 1), outer));
  const centre = track.at(middle, (inner + outer) / 2);
  made.shapes.push({ kind: "area", path, title: area.id, at: [centre.x, centre.y], angle: 0,
    width: share * track.length * centre.stretch, area });
}

function push(path, point) {
  path.push([point.x, point.y]);
}

/** The pitch in the middle, with its lines. */
function pitch(track, made) {
  const gap = 9;
  const w = track.long / 2 + track.radius - gap, h = track.short / 2 + track.radius - gap;
  const box = (x, y, width, height) => [[x, y], [x + width, y], [x + width, y + height], [x, y + height]];
  const circle = (x, y, radius) => Array.from({ length: 33 },
    (_, at) => [x + Math.cos((at * Math.PI) / 16) * radius, y + Math.sin((at * Math.PI) / 16) * radius]);
  const unit = w / 52.5;
  const around = Array.from({ length: 120 }, (_, at) => track.at(at / 120, -3)).map(({ x, y }) => [x, y]);
  made.shapes.push({ kind: "pitch", path: around });
  const x = w * 0.94, y = h * 0.86;
  made.shapes.push({ kind: "line", path: box(-x, -y, 2 * x, 2 * y) });
  made.shapes.push({ kind: "line", path: [[0, -y], [0, y]] });
  made.shapes.push({ kind: "line", path: circle(0, 0, 9.15 * unit) });
  for (const side of [-1, 1]) {
    const depth = 16.5 * unit, tall = Math.min(20.2 * unit, y * 0.8);
    made.shapes.push({ kind: "line", path: box(side < 0 ? -x : x - depth, -tall, depth, 2 * tall) });
    made.shapes.push({ kind: "line", path: box(side < 0 ? -x : x - depth / 3, -tall / 2.2, depth / 3,
      (2 * tall) / 2.2) });
  }
}
