// The drawing of a show on canvases: what is below the seats, the seats, the names on them, and what is above all of
// it. Zoom and pan are here; what they mean for the page is not.
import { BLOCKED, FREE, HELD, SOLD } from "./model.js";
import { Dots, Raster } from "./raster.js";
import { onColours } from "../lib/colours.js";
import { palette } from "./palette.js";

/** Seats larger than this, in pixels of the screen, are drawn as shapes with their labels. */
const SHAPES = 13;
/** Time for which a changed seat is marked, in milliseconds, and most marks at once. */
const FLASH = 700, FLASHES = 1500;
/** Marks beyond which they are no circles, and fade in fewer steps: a rush must leave the page time. */
const MANY = 100;
/** Time between two steps of many marks, in milliseconds. */
const STEP = 60;
/** Radius in pixels of the canvas below which a dot is a pixel or two. */
const SMALL = 1.6;
/** Pixels of the screen for a unit, at most. */
const CLOSEST = 60;
/** The smallest scale, as a part of the one that shows everything. */
const SMALLEST = 0.7;
/** The layers. */
const BELOW = 1, SEATS = 2, NAMES = 4, ALL = 15;
export const ABOVE = 8;
/** Part of its room that a seat takes. */
const SEAT = 0.8;
/** Room in pixels below which a seat takes all of its room, and above which it takes [`SEAT`] of it. */
const FULL = 2, LOOSE = 6;

/** @typedef {import("./model.js").Show} Show @typedef {import("./layout.js").Layout} Layout */

export class View {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.layers = ["below", "seats", "names", "above"].map((name) => {
      const canvas = document.createElement("canvas");
      canvas.className = `layer ${name}`;
      canvas.setAttribute("aria-hidden", "true");
      place.append(canvas);
      return canvas;
    });
    const contexts = this.layers.map((canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")));
    this.below = contexts[0];
    this.seats = contexts[1];
    this.names = contexts[2];
    this.above = contexts[3];
    /** Size in pixels of the page, and in those of the canvas. */
    this.width = this.height = this.wide = this.tall = 0;
    this.ratio = 1;
    /** The corners of the rectangle that is drawn to select seats. @type {number[] | null} */
    this.frame = null;
    /** A seat that is carried, and where it is on the screen. @type {[number, number, number] | null} */
    this.carried = null;
    this.raster = new Raster(this.seats);
    this.dots = new Map();
    /** Seats that have changed at once, and when. @type {{since: number, seats: number[]}[]} */
    this.flashes = [];
    /** How many seats these are. */
    this.flashing = 0;
    this.changed = ALL;
    this.chosen = new Set();
    this.hovered = -1;
    this.onlyTier = -1;
    /** The timer of the next step of many marks; 0 without one. */
    this.fading = 0;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.paint = palette();
    this.endColours = onColours(() => {
      this.paint = palette();
      this.dots.clear();
      this.draw();
    });
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(place);
    [this.scale, this.left, this.top] = [1, 0, 0];
    this.resize();
  }

  close() {
    this.endColours();
    this.resizes.disconnect();
    clearTimeout(this.fading);
    this.layers.forEach((canvas) => canvas.remove());
    this.show = null;
  }

  /** @param {Show} show @param {Layout} layout @param {boolean} keep whether zoom and place stay */
  load(show, layout, keep) {
    this.show = show;
    this.layout = layout;
    this.look = new Uint8Array(show.size).fill(255);
    [this.flashes, this.flashing] = [[], 0];
    for (let at = 0; at < show.size; at += 1) this.dress(at);
    this.pitch = Math.min(...layout.pitch);
    if (!keep) this.fit();
    else this.draw();
  }

  /** The colour's index of a position: tiers first, then the other states. */
  dress(at) {
    const { show } = this, state = show.state[at], tier = show.tier[at];
    if (tier === 255 || !state) return;
    const others = show.tiers.length;
    if (this.onlyTier >= 0 && tier !== this.onlyTier) this.look[at] = others + 3;
    else this.look[at] = state === FREE ? tier : others + (state === HELD ? 0 : state === SOLD ? 1 : 2);
  }

  /** Shows the seats of one tier alone. @param {number} tier -1 for all */
  only(tier) {
    this.onlyTier = tier;
    if (!this.show) return;
    for (let at = 0; at < this.show.size; at += 1) this.dress(at);
    this.draw();
  }

  /** Seats have changed. @param {number[]} changed */
  change(changed) {
    changed.forEach((at) => this.dress(at));
    if (!this.calm) {
      const seats = changed.slice(0, FLASHES - this.flashing);
      if (seats.length) this.flashes.push({ since: performance.now(), seats });
      this.flashing += seats.length;
    }
    if (changed.length) this.draw(SEATS | ABOVE);
  }

  resize() {
    const { clientWidth, clientHeight } = this.place;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [wide, tall] = [Math.max(1, Math.round(clientWidth * ratio)), Math.max(1, Math.round(clientHeight * ratio))];
    if (this.wide === wide && this.tall === tall) return;
    const fitted = this.fitted;
    Object.assign(this, { ratio, wide, tall, width: clientWidth, height: clientHeight });
    for (const canvas of this.layers) Object.assign(canvas, { width: wide, height: tall });
    this.raster.resize(wide, tall);
    if (fitted !== false) this.fit();
    else this.draw();
  }

  /** Shows everything. */
  fit() {
    const { layout } = this;
    if (!layout) return;
    const [wide, tall] = [layout.right - layout.left, layout.bottom - layout.top];
    const margin = Math.min(24, this.width * 0.03);
    this.scale = Math.max(0.05, Math.min((this.width - 2 * margin) / wide, (this.height - 2 * margin) / tall,
      CLOSEST / 2));
    this.smallest = this.scale * SMALLEST;
    this.place.classList.remove("enlarged");
    this.left = layout.left - (this.width / this.scale - wide) / 2;
    this.top = layout.top - (this.height / this.scale - tall) / 2;
    this.fitted = true;
    this.draw();
  }

  /** Zooms around a point of the screen. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.max(this.smallest || 0.05, Math.min(CLOSEST, this.scale * factor));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.fitted = false;
    // One finger moves an enlarged map, and scrolls the page over any other.
    this.place.classList.toggle("enlarged", scale > this.smallest / SMALLEST * 1.01);
    this.bound();
  }

  /** Moves by pixels of the screen. */
  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
    this.fitted = false;
    this.bound();
  }

  /** Keeps a part of the drawing in view. */
  bound() {
    const { layout } = this;
    if (!layout) return;
    const [wide, tall] = [this.width / this.scale, this.height / this.scale];
    this.left = Math.max(layout.left - wide * 0.8, Math.min(layout.right - wide * 0.2, this.left));
    this.top = Math.max(layout.top - tall * 0.8, Math.min(layout.bottom - tall * 0.2, this.top));
    this.draw();
  }

  /** Brings seats into view. @param {number[]} seats */
  reveal(seats) {
    const { layout } = this;
    if (!layout || !seats.length) return;
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const at of seats) {
      left = Math.min(left, layout.x[at]); right = Math.max(right, layout.x[at]);
      top = Math.min(top, layout.y[at]); bottom = Math.max(bottom, layout.y[at]);
    }
    this.scale = Math.max(this.smallest || 0.05, Math.min(26, this.width / (right - left + 12),
      this.height / (bottom - top + 9)));
    this.left = (left + right) / 2 - this.width / this.scale / 2;
    this.top = (top + bottom) / 2 - this.height / this.scale / 2;
    this.fitted = false;
    this.bound();
  }

  /** The position of the seat at a point of the screen; -1 if none is within reach. */
  hit(px, py, reach = Math.max(0.6, 3 / this.scale)) {
    const { layout, show } = this;
    if (!show || !layout) return -1;
    const x = px / this.scale + this.left, y = py / this.scale + this.top;
    let best = reach ** 2, found = -1;
    for (let at = 0; at < show.size; at += 1) {
      if (show.tier[at] === 255) continue;
      const dx = layout.x[at] - x, dy = layout.y[at] - y, away = dx * dx + dy * dy;
      if (away < best) [best, found] = [away, at];
    }
    return found;
  }

  /** The seat next to a seat in a direction, as `[1, 0]`; the seat itself if it is the last one. */
  beside(from, [right, down]) {
    const { layout, show } = this;
    let best = Infinity, found = from;
    for (let at = 0; at < show.size; at += 1) {
      if (show.tier[at] === 255) continue;
      const dx = layout.x[at] - layout.x[from], dy = layout.y[at] - layout.y[from];
      const ahead = dx * right + dy * down, aside = Math.abs(dx * down) + Math.abs(dy * right);
      // A seat that is more aside than ahead is in another direction.
      if (ahead > 0.01 && aside <= ahead * 1.5 && ahead + 2 * aside < best) [best, found] = [ahead + 2 * aside, at];
    }
    return found;
  }

  /** Moves the map as far as a seat needs to be seen, and gives its place on the screen. */
  include(at) {
    const margin = Math.min(60, this.width / 4, this.height / 4);
    const off = (value, size) => Math.max(0, margin - value) - Math.max(0, value - size + margin);
    const place = () => [this.sx(this.layout.x[at]), this.sy(this.layout.y[at])];
    const [x, y] = place();
    if (!this.fitted) this.pan(off(x, this.width), off(y, this.height));
    return place();
  }

  /** The seats in a rectangle of the screen. */
  within(x1, y1, x2, y2) {
    const { layout, show } = this, found = [];
    if (!show || !layout) return found;
    const [left, right] = [Math.min(x1, x2) / this.scale + this.left, Math.max(x1, x2) / this.scale + this.left];
    const [top, bottom] = [Math.min(y1, y2) / this.scale + this.top, Math.max(y1, y2) / this.scale + this.top];
    for (let at = 0; at < show.size; at += 1) {
      if (show.tier[at] !== 255 && layout.x[at] >= left && layout.x[at] <= right && layout.y[at] >= top
        && layout.y[at] <= bottom) found.push(at);
    }
    return found;
  }

  /** Draws layers that have changed, with the next frame. @param {number} [layers] */
  draw(layers = ALL) {
    this.changed |= layers;
    if (this.asked || !this.show) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (this.show) this.drawNow();
    });
  }

  drawNow() {
    const changed = this.changed;
    this.changed = 0;
    if (changed & BELOW) this.drawBelow();
    if (changed & SEATS) this.drawSeats();
    if (changed & NAMES) this.drawNames();
    if (changed & ABOVE) this.drawAbove();
    if (!this.flashing || this.fading) return;
    if (this.flashing <= MANY) this.draw(ABOVE);
    else this.fading = setTimeout(() => { this.fading = 0; this.draw(ABOVE); }, STEP);
  }

  sx(x) { return (x - this.left) * this.scale; }
  sy(y) { return (y - this.top) * this.scale; }

  drawBelow() {
    const { below: context, layout } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.lineJoin = "round";
    for (const shape of layout.shapes) {
      context.beginPath();
      shape.path.forEach(([x, y], at) => (at ? context.lineTo(this.sx(x), this.sy(y))
        : context.moveTo(this.sx(x), this.sy(y))));
      if (shape.kind !== "line" || shape.path.length > 2) context.closePath();
      const [fill, line] = this.styles(shape.kind);
      // Wide lines below the fill make round corners.
      if (fill && shape.round) {
        for (const [colour, more] of [[line || fill, 2], [fill, 0]]) {
          context.strokeStyle = colour;
          context.lineWidth = shape.round * this.scale * 2 + more;
          context.stroke();
        }
      }
      if (fill) {
        context.fillStyle = fill;
        context.fill();
      }
      if (shape.round) continue;
      if (line) {
        context.strokeStyle = line;
        context.lineWidth = shape.kind === "line" ? Math.max(1, 0.35 * this.scale) : 1;
        context.stroke();
      }
    }
  }

  styles(kind) {
    const { paint } = this;
    return {
      area: [paint.area, paint.areaLine], coach: [paint.area, paint.areaLine], coupling: [paint.areaLine, null],
      stage: [paint.stage, paint.stageLine], pitch: [paint.pitch, null], line: [null, paint.pitchLine],
    }[kind];
  }

  drawSeats() {
    const { scale, ratio, paint, show, layout } = this;
    const seat = scale * SEAT;
    if (seat <= SHAPES) {
      const loose = Math.min(1, Math.max(0, (scale - FULL) / (LOOSE - FULL)));
      const room = scale * (1.08 - (1.08 - SEAT) * loose);
      const radius = Math.max(0.55, Math.round(room * this.pitch * ratio * 2) / 4);
      let dots = this.dots.get(radius);
      if (!dots) {
        const colours = [...show.tiers.map((_, tier) => paint.tier(tier)), paint.held, paint.sold, paint.blocked,
          paint.areaLine];
        if (this.dots.size > 60) this.dots.clear();
        dots = new Dots(radius, colours);
        this.dots.set(radius, dots);
      }
      this.raster.draw(layout, this.look, dots, scale * ratio, this.left, this.top);
      return;
    }
    const context = this.seats;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.wide, this.tall);
    const [right, bottom] = [this.left + this.width / scale + 1, this.top + this.height / scale + 1];
    const named = scale >= 20;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let at = 0; at < show.size; at += 1) {
      if (show.tier[at] === 255) continue;
      const x = layout.x[at], y = layout.y[at];
      if (x < this.left - 1 || y < this.top - 1 || x > right || y > bottom) continue;
      this.shape(context, at, x, y, named);
    }
  }

  /** One large seat: its state has a form as well as a colour. */
  shape(context, at, x, y, named) {
    const { show, paint, layout, ratio, scale } = this;
    const state = show.state[at], tier = show.tier[at];
    const dim = this.onlyTier >= 0 && tier !== this.onlyTier;
    const turn = layout.angle[at], size = SEAT * Math.min(1, layout.pitch[at]);
    const zoom = scale * ratio, half = size / 2;
    const [cos, sin] = [Math.cos(turn) * zoom, Math.sin(turn) * zoom];
    context.setTransform(cos, sin, -sin, cos, this.sx(x) * ratio, this.sy(y) * ratio);
    context.globalAlpha = dim ? 0.25 : 1;
    context.beginPath();
    context.roundRect(-half, -half, size, size, size * 0.26);
    context.fillStyle = paint.seat(state, tier);
    context.fill();
    context.lineWidth = 0.09;
    if (state === HELD) {
      context.strokeStyle = paint.tier(tier);
      context.stroke();
    } else if (state === BLOCKED) {
      context.strokeStyle = paint.blockedLine;
      context.lineWidth = 0.06;
      context.moveTo(-half * 0.45, -half * 0.45);
      context.lineTo(half * 0.45, half * 0.45);
      context.moveTo(half * 0.45, -half * 0.45);
      context.lineTo(-half * 0.45, half * 0.45);
      context.stroke();
    }
    if (named && state !== BLOCKED) {
      const label = show.rows[show.row[at]].row.seats[at - show.rows[show.row[at]].row.start]?.label ?? "";
      // Labels are upright in rows of all directions.
      context.setTransform(zoom, 0, 0, zoom, this.sx(x) * ratio, this.sy(y) * ratio);
      context.fillStyle = state === FREE ? paint.seatText : state === HELD ? "#2b1d00" : paint.faint;
      context.font = `600 ${label.length > 2 ? 0.26 : 0.34}px system-ui, sans-serif`;
      context.fillText(label, 0, 0.02, size * 0.9);
    }
    context.globalAlpha = 1;
  }

  drawNames() {
    const { names: context } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.drawTitles(context);
    this.drawRows(context);
  }

  /** Rings around the seats that have just changed: they grow and fade. Those of one change are one path. */
  drawFlashes(context) {
    const { layout, paint, scale } = this, now = performance.now();
    this.flashes = this.flashes.filter(({ since }) => now - since < FLASH);
    this.flashing = this.flashes.reduce((sum, { seats }) => sum + seats.length, 0);
    context.strokeStyle = paint.flash;
    context.lineWidth = 1.5;
    for (const { since, seats } of this.flashes) {
      const age = (now - since) / FLASH, radius = Math.max(2, scale * 0.5) * (1 + age * 1.4);
      context.globalAlpha = (1 - age) * 0.8;
      context.beginPath();
      for (const at of seats) {
        const x = this.sx(layout.x[at]), y = this.sy(layout.y[at]);
        if (x < -radius || y < -radius || x > this.width + radius || y > this.height + radius) continue;
        if (this.flashing > MANY) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
        else {
          context.moveTo(x + radius, y);
          context.arc(x, y, radius, 0, 2 * Math.PI);
        }
      }
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  drawAbove() {
    const { above: context, paint, layout } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.drawFlashes(context);
    this.rings(context, this.chosen, 2, 0);
    if (this.hovered >= 0) this.rings(context, [this.hovered], 2.5, 1);
    if (this.carried) {
      const [at, x, y] = this.carried;
      context.strokeStyle = paint.chosen;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(this.sx(layout.x[at]), this.sy(layout.y[at]));
      context.lineTo(x, y);
      context.stroke();
      context.beginPath();
      context.arc(x, y, 4, 0, 2 * Math.PI);
      context.stroke();
    }
    if (this.frame) {
      const [x1, y1, x2, y2] = this.frame;
      context.strokeStyle = paint.chosen;
      context.lineWidth = 1.5;
      context.setLineDash([5, 4]);
      context.strokeRect(Math.min(x1, x2), Math.min(y1, y2), Math.abs(x2 - x1), Math.abs(y2 - y1));
      context.setLineDash([]);
    }
  }

  /** Rings around seats, as one path: thousands may be selected. @param {Iterable<number>} seats */
  rings(context, seats, width, more) {
    const { layout, scale } = this, radius = Math.max(3.5, scale * 0.5) + more;
    // Small ones have no corners that could be seen.
    const isRound = radius > 5;
    context.beginPath();
    for (const at of seats) {
      const x = this.sx(layout.x[at]) - radius, y = this.sy(layout.y[at]) - radius;
      if (x < -2 * radius || y < -2 * radius || x > this.width || y > this.height) continue;
      if (isRound) context.roundRect(x, y, radius * 2, radius * 2, radius * 0.35);
      else context.rect(x, y, radius * 2, radius * 2);
    }
    context.lineWidth = width;
    context.strokeStyle = this.paint.chosen;
    context.stroke();
  }

  /** The labels of rows beside their first seat, if there is room. */
  drawRows(context) {
    const { show, layout, paint, scale } = this;
    if (scale < SHAPES || layout.kind === "train") return;
    context.font = `600 ${Math.min(13, scale * 0.5)}px system-ui, sans-serif`;
    context.fillStyle = paint.faint;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const { row } of show.rows) {
      const at = row.start, pitch = layout.pitch[at] * 1.05;
      const x = this.sx(layout.x[at] - Math.cos(layout.angle[at]) * pitch),
        y = this.sy(layout.y[at] - Math.sin(layout.angle[at]) * pitch);
      if (x > -20 && y > -20 && x < this.width + 20 && y < this.height + 20) context.fillText(row.label, x, y);
    }
  }

  /** The names of areas, as large as their room allows. */
  drawTitles(context) {
    const { paint, layout, scale } = this;
    context.textBaseline = "middle";
    for (const shape of layout.shapes) {
      if (!shape.title || !shape.at) continue;
      const onSeats = layout.kind === "bowl";
      // Names would hide small seats, or the coaches of the line above.
      if ((onSeats && scale < 3.2) || (layout.kind === "train" && scale < 3)) continue;
      const room = (shape.width || 8) * scale;
      const size = shape.kind === "stage" ? Math.min(18, room * 0.09)
        : Math.max(9, Math.min(13, room * 0.3, layout.kind === "train" ? scale * 2.6 : 13));
      context.font = `600 ${size}px system-ui, sans-serif`;
      const long = context.measureText(shape.title).width;
      if (long > room * (onSeats ? 0.95 : 1.1) || (onSeats && scale * SEAT > SHAPES)
        || (!onSeats && scale < 2.2 && shape.kind === "area" && room < 24)) continue;
      const x = this.sx(shape.at[0]), y = this.sy(shape.at[1]);
      context.textAlign = shape.align || "center";
      if (onSeats) {
        context.fillStyle = paint.area;
        context.globalAlpha = 0.86;
        context.beginPath();
        context.roundRect(x - long / 2 - 4, y - size / 2 - 2, long + 8, size + 4, 4);
        context.fill();
        context.globalAlpha = 1;
      }
      context.fillStyle = shape.kind === "stage" || onSeats ? paint.text : paint.faint;
      context.fillText(shape.title, x, y + 0.5);
    }
  }
}
