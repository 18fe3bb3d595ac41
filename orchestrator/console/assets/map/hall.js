// A hall: the stage above, and curved rows in front of it, the areas of the best priority nearest.

/** Distance between two rows, between two levels, and between two areas of a level. */
const ROW = 1.18, LEVEL = 4.2, ASIDE = 3;

/** Areas beside the seats: a few seats in a row, as in boxes. */
function isBeside(area, widest) {
  return area.widest <= 8 && area.widest * 2.5 < widest && area.rows.length >= 4;
}

/** @param {import("./model.js").Show} show @param {import("./layout.js").Layout} made */
export function hall(show, made) {
  const widest = Math.max(...show.areas.map((area) => area.widest));
  const beside = show.areas.filter((area) => isBeside(area, widest));
  const levels = new Map();
  for (const area of show.areas) {
    if (beside.includes(area)) continue;
    if (!levels.has(area.priority)) levels.set(area.priority, []);
    levels.get(area.priority).push(area);
  }
  const sorted = [...levels.entries()].sort(([a], [b]) => a - b).map(([, areas]) => areas.sort((a,
    b) => side(a) - side(b)));
  const total = Math.max(...sorted.map((areas) => areas.reduce((sum, area) => sum + area.widest + ASIDE, -ASIDE)));
  const rows = sorted.reduce((sum, areas) => sum + Math.max(...areas.map((area) => area.rows.length)), 0);
  // The farther the middle of the circles, the flatter the rows.
  const radius = Math.max(total * 1.25, 18);
  const arc = new Arc(radius);
  let depth = Math.max(5, total * 0.12);
  const first = depth;
  for (const areas of sorted) {
    const wide = areas.reduce((sum, area) => sum + area.widest + ASIDE, -ASIDE);
    let from = -wide / 2;
    for (const area of areas) {
      place(area, arc, from + area.widest / 2, depth, made);
      from += area.widest + ASIDE;
    }
    depth += (Math.max(...areas.map((area) => area.rows.length)) - 1) * ROW + LEVEL;
  }
  boxes(beside, arc, total, first, made);
  stage(arc, total, rows, made);
}

/** Left, middle or right, by the name of an area. */
function side(area) {
  const name = `${area.id} ${area.name}`;
  if (/\bleft\b/i.test(name)) return -1;
  return /\bright\b/i.test(name) ? 1 : 0;
}

/** Circles around a point behind the stage. */
class Arc {
  constructor(radius) {
    this.radius = radius;
  }

  /** The point this far along the row at this depth. */
  at(along, depth) {
    const radius = this.radius + depth;
    const turn = along / radius;
    return { x: Math.sin(turn) * radius, y: Math.cos(turn) * radius - this.radius, angle: -turn };
  }
}

function place(area, arc, middle, depth, made) {
  area.rows.forEach((row, at) => {
    const away = depth + at * ROW;
    // An area keeps its direction in all rows.
    const centre = middle * ((arc.radius + away) / (arc.radius + depth));
    for (let seat = 0; seat < row.count; seat += 1) {
      const point = arc.at(centre + seat - (row.count - 1) / 2, away);
      const position = row.start + seat;
      made.x[position] = point.x;
      made.y[position] = point.y;
      made.angle[position] = point.angle;
    }
  });
  outline(area, arc, middle, depth, made);
}

function outline(area, arc, middle, depth, made) {
  const left = [], right = [];
  area.rows.forEach((row, at) => {
    const away = depth + at * ROW, half = row.count / 2 + 0.55;
    const centre = middle * ((arc.radius + away) / (arc.radius + depth));
    const edges = at === 0 ? [away - 0.85, away] : at === area.rows.length - 1 ? [away, away + 0.85] : [away];
    if (area.rows.length === 1) edges.push(away + 0.85);
    for (const edge of edges) {
      left.push(point(arc.at(centre - half, edge)));
      right.push(point(arc.at(centre + half, edge)));
    }
  });
  const last = depth + (area.rows.length - 1) * ROW;
  const across = (away, from, to) => {
    const centre = middle * ((arc.radius + away) / (arc.radius + depth));
    return Array.from({ length: 15 }, (_, at) => point(arc.at(centre + from + ((to - from) * (at + 1)) / 16, away)));
  };
  const [front, back] = [area.rows[0].count / 2 + 0.55, area.rows[area.rows.length - 1].count / 2 + 0.55];
  const path = [...across(depth - 0.85, -front, front), ...right, ...across(last + 0.85, back, -back),
    ...left.reverse()];
  const title = arc.at(middle * ((arc.radius + depth - 2.1) / (arc.radius + depth)), depth - 2);
  made.shapes.push({ kind: "area", path, title: area.name, at: point(title), width: area.widest, area });
}

function point({ x, y }) {
  return [x, y];
}

/** Boxes: one half of the rows on the left, the other on the right, outside of everything else. */
function boxes(areas, arc, total, first, made) {
  let out = total / 2 + 4;
  for (const area of areas) {
    const byName = area.rows.every((row) => /^[LR]/i.test(row.label));
    const isLeft = (row, at) => (byName ? /^L/i.test(row.label) : at % 2 === 0);
    const count = { left: 0, right: 0 };
    const half = area.widest / 2;
    area.rows.forEach((row, at) => {
      const left = isLeft(row, at);
      const place = left ? count.left++ : count.right++;
      const sign = left ? -1 : 1;
      const depth = first + place * (area.widest + 1.4) * 0.92;
      const centre = arc.at(sign * out, depth);
      const turn = centre.angle + (sign * Math.PI) / 2 * -0.82;
      const [dx, dy] = [Math.cos(turn), Math.sin(turn)];
      for (let seat = 0; seat < row.count; seat += 1) {
        const along = seat - (row.count - 1) / 2;
        const position = row.start + seat;
        made.x[position] = centre.x + dx * along;
        made.y[position] = centre.y + dy * along;
        made.angle[position] = turn;
      }
      const [nx, ny] = [-dy, dx], reach = half + 0.2;
      const corner = (a, b) => [centre.x + dx * a * reach + nx * b * 0.85, centre.y + dy * a * reach + ny * b * 0.85];
      made.shapes.push({ kind: "area", path: [corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)], area,
        round: 0.5,
        title: row.label, at: [centre.x + nx * sign * 1.9 * -1 * -1, centre.y + ny * sign * 1.9],
          width: area.widest });
    });
    out += 6;
  }
}

/** The stage, as wide as the first rows. */
function stage(arc, total, rows, made) {
  const half = Math.max(6, Math.min(total * 0.42, 26)), deep = Math.max(3.2, half * 0.3);
  const path = [];
  for (let at = 0; at <= 16; at += 1) path.push(point(arc.at(half * (at / 8 - 1), 1)));
  path.push([half * 0.86, -deep], [-half * 0.86, -deep]);
  made.shapes.push({ kind: "stage", path, title: "Stage", at: [0, (1.2 - deep) / 2], width: half * 2, round: 0.8 });
}
