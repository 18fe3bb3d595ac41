// Mouse, touch and keys on the map.
import { ABOVE } from "./view.js";

/** Keys that select all seats that have something in common with the one under the cursor. */
const ALIKE = { r: "row", a: "area", t: "tier" };
/** Pixels that a press may move and still be a click. */
const STILL = 5;

/**
 * @param {HTMLElement} place @param {import("./view.js").View} view
 * @param {{hover: (at: number, x: number, y: number) => void, pick: (at: number, more: boolean) => void, frame:
 *   (seats: number[], more: boolean) => void, spread: (seat: number, kind: "row" | "area" | "tier") => void,
 *   movable: (seat: number) => boolean, drop: (from: number, to: number) => void}} told a seat that is `movable` is
 *   carried by the mouse to another one, on which it is dropped
 * @returns {() => void} ends it
 */
export function gestures(place, view, told) {
  const pointers = new Map();
  let moved = 0, spread = 0, framing = null, glide = 0, cursor = -1, carried = -1;
  const at = (event) => {
    const box = place.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const down = (event) => {
    place.setPointerCapture(event.pointerId);
    place.focus({ preventScroll: true });
    const [x, y] = at(event);
    pointers.set(event.pointerId, { x, y, time: performance.now(), vx: 0, vy: 0 });
    cancelAnimationFrame(glide);
    cursor = -1;
    moved = 0;
    framing = event.shiftKey ? [x, y] : null;
    const seat = event.pointerType === "touch" || framing || event.ctrlKey || event.metaKey ? -1 : view.hit(x, y);
    carried = seat >= 0 && told.movable(seat) ? seat : -1;
    spread = 0;
  };
  const move = (event) => {
    const [x, y] = at(event);
    const pointer = pointers.get(event.pointerId);
    if (!pointer) {
      const seat = view.hit(x, y);
      if (seat !== view.hovered) {
        view.hovered = seat;
        view.draw(ABOVE);
      }
      told.hover(seat, x, y);
      return;
    }
    const [dx, dy] = [x - pointer.x, y - pointer.y];
    moved += Math.abs(dx) + Math.abs(dy);
    const now = performance.now(), passed = Math.max(1, now - pointer.time);
    Object.assign(pointer, { x, y, time: now, vx: dx / passed, vy: dy / passed });
    if (framing) {
      view.frame = [...framing, x, y];
      view.draw(ABOVE);
    } else if (carried >= 0) {
      if (moved > STILL) view.carried = [carried, x, y];
      view.draw(ABOVE);
    } else if (pointers.size === 1) {
      if (moved > STILL) view.pan(dx, dy);
    } else {
      const [a, b] = [...pointers.values()];
      const now = Math.hypot(a.x - b.x, a.y - b.y);
      if (spread) view.zoom(now / spread, (a.x + b.x) / 2, (a.y + b.y) / 2);
      view.pan(dx / 2, dy / 2);
      spread = now;
    }
  };
  const slide = (vx, vy) => {
    if (Math.hypot(vx, vy) < 0.03 || view.calm) return;
    view.pan(vx * 16, vy * 16);
    glide = requestAnimationFrame(() => slide(vx * 0.92, vy * 0.92));
  };
  /** Ends the way of a carried seat. Gives the seat; -1 if none was carried. */
  const putDown = () => {
    const seat = view.carried ? carried : -1;
    carried = -1;
    view.carried = null;
    view.draw(ABOVE);
    return seat;
  };
  const up = (event) => {
    const pointer = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    spread = 0;
    const seat = putDown();
    if (!pointer || event.type === "pointercancel") return;
    const isTouch = event.pointerType === "touch";
    const more = isTouch || event.ctrlKey || event.metaKey || event.shiftKey;
    if (framing && view.frame) {
      const seats = view.within(...view.frame);
      view.frame = framing = null;
      told.frame(seats, true);
      view.draw(ABOVE);
    } else if (seat >= 0) {
      const to = view.hit(pointer.x, pointer.y);
      if (to >= 0 && to !== seat) told.drop(seat, to);
    } else if (moved <= STILL) {
      framing = null;
      const seat = view.hit(pointer.x, pointer.y);
      if (isTouch) told.hover(seat, pointer.x, pointer.y);
      told.pick(seat, more);
    } else if (performance.now() - pointer.time < 40 && pointers.size === 0) {
      slide(pointer.vx, pointer.vy);
    }
  };
  const leave = (event) => {
    // A finger that goes up leaves the card of the seat that it has touched.
    if (event.pointerType === "touch") return;
    view.hovered = -1;
    view.draw(ABOVE);
    told.hover(-1, 0, 0);
  };
  const wheel = (event) => {
    event.preventDefault();
    const step = event.deltaMode ? event.deltaY * 20 : event.deltaY;
    view.zoom(Math.exp(-Math.max(-80, Math.min(80, step)) * 0.004), ...at(event));
  };
  /** Puts the cursor of the keyboard on a seat; -1 removes it. */
  const point = (seat) => {
    cursor = view.hovered = seat;
    const [x, y] = seat < 0 ? [0, 0] : view.include(seat);
    told.hover(seat, x, y);
    view.draw(ABOVE);
  };
  const unpoint = () => cursor >= 0 && point(-1);
  const key = (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    // The plan may have been altered.
    if (cursor >= (view.show?.size ?? 0)) cursor = -1;
    if (step && cursor >= 0) point(view.beside(cursor, step));
    else if (step) view.pan(-60 * step[0], -60 * step[1]);
    else if (event.key === "Enter" || event.key === " ") {
      if (cursor >= 0) told.pick(cursor, event.key === " ");
      else point(view.hit(view.width / 2, view.height / 2, Infinity));
    } else if (event.key === "Escape" && view.carried) putDown();
    else if (event.key === "Escape" && cursor >= 0) unpoint();
    else if (ALIKE[event.key] && cursor >= 0 && !event.ctrlKey && !event.metaKey) {
      told.spread(cursor, ALIKE[event.key]);
    }
    else if (event.key === "+" || event.key === "=") view.zoom(1.3);
    else if (event.key === "-") view.zoom(1 / 1.3);
    else if (event.key === "0") view.fit();
    else return;
    event.preventDefault();
  };
  const all = { pointerdown: down, pointermove: move, pointerup: up, pointercancel: up, pointerleave: leave,
    keydown: key, blur: unpoint };
  for (const [name, handler] of Object.entries(all)) place.addEventListener(name, /** @type {any} */ (handler));
  place.addEventListener("wheel", wheel, { passive: false });
  return () => {
    cancelAnimationFrame(glide);
    for (const [name, handler] of Object.entries(all)) place.removeEventListener(name, /** @type {any} */ (handler));
    place.removeEventListener("wheel", wheel);
  };
}
