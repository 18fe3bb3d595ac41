// Blocks side by side, for plans whose shape says nothing.

const ROW = 1.1, GAP = 3, TITLE = 2.4;

/** @param {import("./model.js").Show} show @param {import("./layout.js").Layout} made @param {number} proportion */
export function blocks(show, made, proportion) {
  const wide = (area) => Math.max(area.widest, 4) + GAP;
  const tall = (area) => area.rows.length * ROW + GAP + TITLE;
  const space = show.areas.reduce((sum, area) => sum + wide(area) * tall(area), 0);
  const most = Math.max(Math.sqrt(space * proportion), ...show.areas.map(wide));
  let [x, y, line] = [0, 0, 0];
  for (const area of show.areas) {
    if (x > 0 && x + wide(area) > most) [x, y, line] = [0, y + line, 0];
    place(area, x, y + TITLE, made);
    x += wide(area);
    line = Math.max(line, tall(area));
  }
}

function place(area, x, y, made) {
  const width = Math.max(area.widest, 4);
  area.rows.forEach((row, at) => {
    for (let seat = 0; seat < row.count; seat += 1) {
      const position = row.start + seat;
      made.x[position] = x + seat + (width - row.count) / 2 + 0.5;
      made.y[position] = y + (at + 0.5) * ROW;
    }
  });
  const bottom = y + area.rows.length * ROW;
  const path = [[x - 0.5, y - 0.4], [x + width + 0.5, y - 0.4], [x + width + 0.5, bottom + 0.4],
    [x - 0.5, bottom + 0.4]];
  made.shapes.push({ kind: "area", path, title: area.name, at: [x + width / 2, y - 1.3], width, area, round: 0.6 });
}
