// A hall as its plan says it is. Areas whose seats would lie on each other, such as a gallery above the stalls, are
// drawn side by side.

/** Seats in one square of this size lie on each other; and the room between two drawings. */
const ON = 0.6, GAP = 4;

/** Whether the plan says where every row is. @param {import("./model.js").Show} show */
export function hasPlaces(show) {
  return show.areas.length > 0 && show.areas.every((area) => area.rows.every((row) => row.places));
}

/** @param {import("./model.js").Show} show @param {import("./layout.js").Layout} made */
export function places(show, made) {
  const unit = usualStep(show);
  /**
   * The parts of the drawing, each with the squares that its seats take, as numbers.
   * @type {{taken: Set<number>, areas: any[]}[]}
   */
  const floors = [];
  for (const area of show.areas) {
    const squares = seatsOf(area, unit).map(([x, y]) => Math.round(x / ON) * 2 ** 24 + Math.round(y / ON));
    const isFree = ({ taken }) => !squares.some((square) => taken.has(square));
    let floor = floors.find(isFree);
    if (!floor) floors.push(floor = { taken: new Set(), areas: [] });
    for (const square of squares) floor.taken.add(square);
    floor.areas.push(area);
  }
  let x = 0;
  for (const { areas } of floors) x += draw(show, areas, unit, x, made) + GAP;
}

/** The usual distance between two neighbours, in the unit of the plan: of the first two of each row. */
function usualStep(show) {
  const steps = [];
  for (const { row: { places: [first, second] } } of show.rows) {
    const step = second ? Math.hypot(second[0] - first[0], second[1] - first[1]) : 0;
    if (step > 0) steps.push(step);
  }
  steps.sort((a, b) => a - b);
  return steps[Math.floor(steps.length / 2)] || 1;
}

function seatsOf(area, unit) {
  return area.rows.flatMap((row) => row.places.filter((_, at) => row.seats[at])).map(([x, y]) => [x / unit, y / unit]);
}

/** Draws areas, the leftmost seat or focus at `x`. Returns how wide they are. */
function draw(show, areas, unit, x, made) {
  const seats = areas.flatMap((area) => seatsOf(area, unit));
  const focuses = new Map(areas.map((area) => area.focus || show.focus).filter(Boolean)
    .map((focus) => [String(focus), focus.map((number) => number / unit)]));
  const all = [...seats, ...focuses.values()];
  const reduce = (of, axis) => all.reduce((edge, point) => of(edge, point[axis]), all[0][axis]);
  const [left, top, right] = [reduce(Math.min, 0), reduce(Math.min, 1), reduce(Math.max, 0)];
  const put = ([from, to]) => [from / unit - left + x, to / unit - top];
  for (const area of areas) {
    for (const row of area.rows) {
      const points = row.places.map(put);
      points.forEach(([to, down], at) => {
        const [before, after] = [points[Math.max(at - 1, 0)], points[Math.min(at + 1, points.length - 1)]];
        const [dx, dy] = [after[0] - before[0], after[1] - before[1]];
        const position = row.start + at;
        const steps = Math.min(at, 1) + Math.min(points.length - 1 - at, 1) || 1;
        made.x[position] = to;
        made.y[position] = down;
        // Labels are upright whichever way a row is numbered.
        made.angle[position] = Math.atan(dx ? dy / dx : dy ? Math.sign(dy) * Infinity : 0);
        made.pitch[position] = Math.min(1, Math.hypot(dx, dy) / steps || 1);
      });
    }
    title(area, put, made);
  }
  for (const focus of focuses.values()) made.shapes.push(mark([focus[0] - left + x, focus[1] - top]));
  return right - left;
}

/** The name of an area, above its uppermost seat. */
function title(area, put, made) {
  const points = area.rows.flatMap((row) => row.places).map(put);
  const top = points.reduce((one, other) => (other[1] < one[1] ? other : one));
  made.shapes.push({ kind: "area", path: [], title: area.name, at: [top[0], top[1] - 1.6], width: 12, area });
}

/** Where all look. */
function mark([x, y]) {
  const path = Array.from({ length: 24 }, (_, at) => {
    const turn = (at / 12) * Math.PI;
    return [x + 2.4 * Math.cos(turn), y + 1.2 * Math.sin(turn)];
  });
  return { kind: "stage", path, title: "Stage", at: [x, y], width: 24 };
}
