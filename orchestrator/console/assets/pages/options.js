// The options of a task as fields of a form.
import { html, useState } from "../lib/ui.js";

/** Options that are numbers. */
const NUMBERS = ["priority", "limit", "retries", "retry_failed", "budget", "min_score", "repeat"];

/**
 * What was written into a form, and its fields. In `options`, fields that are empty are left out, as the API wants it; the
 * fields of `shared` are those of both forms.
 */
export function useOptions() {
  const [written, set] = useState({});
  const change = (name, value) => set({ ...written, [name]: value });
  const input = (name, title, more) => html`<label>${title} <input name=${name} ...${more} value=${written[name] || ""} onInput=${(event) => change(name, event.target.value)} /></label>`;
  const count = (name, title, placeholder, more = { min: 0 }) => input(name, title, { type: "number", placeholder, ...more });
  const filled = Object.entries(written).filter(([, value]) => value !== "");
  const options = Object.fromEntries(filled.map(([name, value]) => [name, NUMBERS.includes(name) ? Number(value) : value]));
  const shared = {
    window: (placeholder = "22:00-06:00") => input("window", "window", { size: 12, placeholder }),
    timeZone: () => input("time_zone", "time zone", { size: 14, placeholder: "Europe/Berlin" }),
    priority: (placeholder = "0") => count("priority", "priority", placeholder, {}),
    limit: (placeholder = "any") => count("limit", "at once, at most", placeholder),
    timeout: (placeholder = "30m") => input("timeout", "time limit of a runner", { size: 8, placeholder }),
    retries: (placeholder = "") => count("retries", "starts after a lost worker", placeholder),
  };
  return { written, options, change, input, count, shared, clear: () => set({}) };
}
