// A train: coaches in lines, each seen from above, travelling to the left.

/** Distance between two rows of seats along the coach, room around seats, between coaches, and between lines. */
const ROW = 1.35, WALL = 0.85, COUPLING = 1.2, LINE = 6;
/** Room at the ends of a coach in addition to its walls, and the radius of its corners. */
const END = 0.7, ROUND = 1.1;

/** @param {import("./model.js").Show} show @param {import("./layout.js").Layout} made @param {number} proportion */
export function train(show, made, proportion) {
  const { areas } = show;
  const long = (area) => area.rows.length * ROW + 2 * (WALL + END + ROUND) + COUPLING;
  const widest = Math.max(...areas.map((area) => area.widest));
  const height = widest + 2 * WALL + LINE;
  const total = areas.reduce((sum, area) => sum + long(area), 0);
  // As many lines as give the drawing the proportion of its room; all are about as long.
  const lines = Math.max(1, Math.round(Math.sqrt(total / (height * proportion))));
  let x = 0, line = 0;
  areas.forEach((area, number) => {
    if (line < lines - 1 && x > 0 && x + long(area) / 2 > total / lines) [x, line] = [0, line + 1];
    // Coaches of one line have one axis.
    coach(area, x, line * height + (widest - area.widest) / 2, made, number === 0, number === areas.length - 1);
    x += long(area);
  });
}

function coach(area, x, y, made, isFirst, isLast) {
  const width = area.rows.length * ROW, tall = area.widest - 1;
  area.rows.forEach((row, at) => {
    for (let seat = 0; seat < row.count; seat += 1) {
      const position = row.start + seat;
      made.x[position] = x + (at + 0.5) * ROW;
      // The first seat is at the lower window.
      made.y[position] = y + tall - seat - (tall - (row.count - 1)) / 2;
      made.angle[position] = 0;
    }
  });
  const [left, right, top, bottom] = [x - WALL - END, x + width + WALL + END, y - WALL - 0.15, y + tall + WALL + 0.15];
  const middle = (top + bottom) / 2;
  const path = [];
  const end = (edge, sign) => [[edge, sign < 0 ? bottom : top], [edge, sign < 0 ? top : bottom]];
  path.push(...(isFirst ? nose(left, top, bottom, -1) : end(left, -1)));
  path.push(...(isLast ? nose(right, top, bottom, 1) : end(right, 1)));
  made.shapes.push({ kind: "coach", path, title: area.name, at: [x, top - 2.3], align: "left", width, area,
    round: ROUND });
  if (!isLast) {
    const from = right + ROUND, reach = from + COUPLING;
    made.shapes.push({ kind: "coupling", path: [[from, middle - 0.5], [reach, middle - 0.5], [reach, middle + 0.5],
      [from, middle + 0.5]] });
  }
}

/** The rounded end of the first and of the last coach. */
function nose(edge, top, bottom, sign) {
  const reach = 4, steps = 14, points = [];
  for (let at = 0; at <= steps; at += 1) {
    const turn = (at / steps) * Math.PI;
    const y = (top + bottom) / 2 - sign * Math.cos(turn) * ((bottom - top) / 2);
    points.push([edge + sign * Math.sin(turn) ** 0.7 * reach, y]);
  }
  return points;
}
