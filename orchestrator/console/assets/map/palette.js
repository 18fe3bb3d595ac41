// The colours of the map. Lightness tells states apart and hue tells tiers apart, so that a map without hue still
// shows what is free: free seats are vivid, held seats are amber, sold seats recede, blocked seats stand out as grey.
import { colour } from "../lib/colours.js";
import { BLOCKED, FREE, HELD, SOLD } from "./model.js";

/** Number of colours of tiers in the style sheet; further tiers use them again. */
const TIERS = 8;

/** The name of a tier's colour in the style sheet. @param {number} index */
export const tierColour = (index) => `--map-tier-${index % TIERS}`;

/** The colours that the style sheet has now. */
export function palette() {
  const tiers = Array.from({ length: TIERS }, (_, index) => colour(tierColour(index)));
  return {
    tier: (index) => tiers[index % TIERS],
    held: colour("--held"),
    sold: colour("--map-sold"),
    blocked: colour("--blocked"),
    blockedLine: colour("--map-blocked-line"),
    area: colour("--panel"),
    areaLine: colour("--line"),
    pitch: colour("--map-pitch"),
    pitchLine: colour("--map-pitch-line"),
    stage: colour("--map-stage"),
    stageLine: colour("--map-stage-line"),
    text: colour("--text"),
    faint: colour("--faint-text"),
    seatText: colour("--map-seat-text"),
    flash: colour("--map-flash"),
    chosen: colour("--map-chosen"),
    /** The fill of a seat. */
    seat(state, tier) {
      if (state === FREE) return this.tier(tier);
      if (state === HELD) return this.held;
      return state === SOLD ? this.sold : state === BLOCKED ? this.blocked : "";
    },
  };
}
