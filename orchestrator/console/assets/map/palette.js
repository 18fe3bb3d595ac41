// The colours of the map. Lightness tells states apart and hue tells tiers apart, so that a map without hue still shows
// what is free: free seats are vivid, held seats are amber, sold seats recede, blocked seats are hollow.
import { BLOCKED, FREE, HELD, SOLD } from "./model.js";

/** Hues of tiers, in pairs that people with any kind of colour blindness tell apart by hue or lightness. */
const TIERS = {
  light: ["#1f6fd6", "#0f9d8a", "#8a4fd3", "#d6487e", "#6b7f10", "#0b4f7d", "#a85a1f", "#5c6f8c"],
  dark: ["#58a6ff", "#2fd0b5", "#b98cff", "#ff85b3", "#b5cc3a", "#9bd5ff", "#d99a66", "#a9b8d0"],
};

/** @param {boolean} dark */
export function palette(dark) {
  const tiers = dark ? TIERS.dark : TIERS.light;
  return {
    dark,
    tier: (index) => tiers[index % tiers.length],
    held: dark ? "#ffc145" : "#f2a900",
    sold: dark ? "#3d4761" : "#bcc4d2",
    // Dots of a pixel or two cover little: the same grey would look empty.
    soldDot: dark ? "#55627f" : "#93a0b6",
    blocked: dark ? "#222a3d" : "#e9ecf2",
    blockedLine: dark ? "#5a6584" : "#a3adbf",
    area: dark ? "#131a2b" : "#ffffff",
    areaLine: dark ? "#26304a" : "#dfe4ee",
    pitch: dark ? "#123528" : "#cfe8d6",
    pitchLine: dark ? "#1f5a44" : "#ffffff",
    stage: dark ? "#2a2350" : "#e4defa",
    stageLine: dark ? "#4a3f87" : "#c5b9f2",
    text: dark ? "#e6ebf5" : "#1b2435",
    faint: dark ? "#8d9ab8" : "#5d6a82",
    seatText: dark ? "#0b1020" : "#ffffff",
    flash: dark ? "#ffffff" : "#1b2435",
    chosen: dark ? "#ffffff" : "#0b1530",
    /** The fill of a seat. */
    seat(state, tier) {
      if (state === FREE) return this.tier(tier);
      if (state === HELD) return this.held;
      return state === SOLD ? this.sold : state === BLOCKED ? this.blocked : "";
    },
  };
}
