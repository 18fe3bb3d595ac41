// A train: coaches in lines, each seen from above, travelling to the left.

/** Distance between two rows of seats along the coach, room around seats, and between lines. */
const ROW = 1.35, WALL = 0.85, COUPLING = 1.6, LINE = 5.6;
/** The wanted proportion of the drawing. */
const PROPORTION = 2.1;

/** @param {import("./model.js").Show} show @param {import("./layout.js").Layout} made */
export function train(show, made) {
  const { areas } = show;
  const length = Math.max(...areas.map((area) => area.rows.length)) * ROW + 2 * WALL + 3 + COUPLING;
  const height = Math.max(...areas.map((area) => area.widest)) + 2 * WALL + LINE;
  const each = Math.max(1, Math.min(areas.length, Math.round(Math.sqrt((areas.length * height * PROPORTION) / length))));
  areas.forEach((area, number) => {
    const x = (number % each) * length, y = Math.floor(number / each) * height;
    coach(area, x, y, made, number === 0, number === areas.length - 1);
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
  const [left, right, top, bottom] = [x - WALL - 0.7, x + width + WALL + 0.7, y - WALL - 0.15, y + tall + WALL + 0.15];
  const middle = (top + bottom) / 2;
  const path = [];
  const end = (edge, sign) => [[edge, sign < 0 ? bottom : top], [edge, sign < 0 ? top : bottom]];
  path.push(...(isFirst ? nose(left, top, bottom, -1) : end(left, -1)));
  path.push(...(isLast ? nose(right, top, bottom, 1) : end(right, 1)));
  made.shapes.push({ kind: "coach", path, title: area.name, at: [x, top - 2.3], align: "left", width, area, round: 1.1 });
  if (!isLast) {
    const reach = right + COUPLING;
    made.shapes.push({ kind: "coupling", path: [[right, middle - 0.5], [reach, middle - 0.5], [reach, middle + 0.5], [right, middle + 0.5]] });
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
