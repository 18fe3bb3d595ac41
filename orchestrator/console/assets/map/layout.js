// Where the seats of a show are: as its plan says, or else by the shape of the plan: a hall with its stage, a bowl
// around a pitch, a train, or blocks side by side. One unit is the distance between two neighbours.
import { bowl } from "./bowl.js";
import { train } from "./train.js";
import { hall } from "./hall.js";
import { blocks } from "./blocks.js";
import { places, hasPlaces } from "./places.js";

/**
 * @typedef {{x: Float32Array, y: Float32Array, angle: Float32Array, pitch: Float32Array, left: number, top: number,
 *   right: number, bottom: number,
 *            shapes: {kind: string, path: [number, number][], title?: string, at?: [number, number], angle?: number,
 *   width?: number,
 *                     round?: number, align?: CanvasTextAlign}[],
 *            kind: string}} Layout
 * `angle` is the direction of a row, in radians, `pitch` the room of a seat; shapes are drawn below the seats
 */

/** The names of the layouts. */
const KINDS = { places: "As in the plan", hall: "Hall", bowl: "Stadium", train: "Train", blocks: "Blocks" };

/** The layouts that a show can have, with their names. @param {import("./model.js").Show | null} show */
export function kindsOf(show) {
  return Object.entries(KINDS).filter(([kind]) => kind !== "places" || (show && hasPlaces(show)));
}

/** The layout that fits a show. @param {import("./model.js").Show} show */
export function guess(show) {
  if (hasPlaces(show)) return "places";
  const { areas } = show;
  const widest = Math.max(...areas.map((area) => area.widest));
  const longest = Math.max(...areas.map((area) => area.rows.length));
  if (areas.length >= 3 && widest <= 7 && longest >= widest * 1.5) return "train";
  if (areas.length >= 24 && widest > 7) return "bowl";
  return areas.length <= 16 ? "hall" : "blocks";
}

/**
 * @param {import("./model.js").Show} show @param {string} [wanted]
 * @param {number} [proportion] width of the room for the drawing, divided by its height
 * @returns {Layout}
 */
export function layout(show, wanted, proportion = 1.6) {
  const isKnown = kindsOf(show).some(([kind]) => kind === wanted);
  const chosen = wanted && isKnown ? wanted : guess(show);
  // A show of standing areas alone has nothing to draw.
  const kind = show.areas.length ? chosen : "blocks";
  const made = {
    x: new Float32Array(show.size), y: new Float32Array(show.size), angle: new Float32Array(show.size),
    pitch: new Float32Array(show.size).fill(1), shapes: [], kind, left: 0, top: 0, right: 1, bottom: 1,
  };
  ({ places, hall, bowl, train, blocks })[kind](show, made, proportion);
  measure(show, made);
  return made;
}

/** The edges of the drawing. */
function measure(show, made) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const add = (x, y) => {
    left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
  };
  for (let at = 0; at < show.size; at += 1) if (show.tier[at] !== 255) add(made.x[at], made.y[at]);
  for (const shape of made.shapes) for (const [x, y] of shape.path) add(x, y);
  if (left > right) [left, top, right, bottom] = [0, 0, 1, 1];
  Object.assign(made, { left: left - 1, top: top - 1, right: right + 1, bottom: bottom + 1 });
}
