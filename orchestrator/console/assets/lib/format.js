// Numbers, times and sizes for people.

const whole = new Intl.NumberFormat("en");

/** @param {number | string | null | undefined} value */
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(Number(value)));

/** A number of things. @param {number} value @param {string} one */
export const counted = (value, one) => `${number(value)} ${one}${value === 1 ? "" : "s"}`;

/** @param {number} part @param {number} all */
export const percent = (part, all) => (all ? `${((100 * part) / all).toFixed(part && part / all < 0.1 ? 1 : 0)} %`
  : "–");

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit += 1) bytes /= 1024;
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

/** Whether times are UTC, and not those of the browser. This browser remembers it. */
export const isUtc = () => localStorage.getItem("zone") === "UTC";

/** @param {boolean} utc */
export const setUtc = (utc) => localStorage.setItem("zone", utc ? "UTC" : "");

const inZone = () => (isUtc() ? { timeZone: "UTC" } : {});

/** The zone of a time: UTC, or the distance from it. @param {number} [ms] since 1970 */
export function zone(ms = Date.now()) {
  const minutes = isUtc() ? 0 : -new Date(Number(ms)).getTimezoneOffset();
  if (!minutes) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

/** A time of day. @param {number} ms since 1970 */
export function clock(ms) {
  if (!ms) return "–";
  return new Date(Number(ms)).toLocaleTimeString("en-GB", inZone());
}

/** A date. @param {number} ms since 1970 */
export const calendar = (ms) => new Date(Number(ms)).toLocaleDateString("en-CA", inZone());

/** A date, a time and its zone. @param {number} ms since 1970 */
export function time(ms) {
  if (!ms) return "–";
  return `${calendar(ms)} ${clock(ms)} ${zone(ms)}`;
}

/** A length of time. @param {number} ms */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 600 && seconds % 60) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2,
    "0")} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** A value of a record as text. @param {any} value */
export function text(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (Array.isArray(value)) return value.length ? value.map(text).join(", ") : "–";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** A record within a record, which comes as a list of names and values. @param {any} record */
export function fields(record) {
  if (!Array.isArray(record)) return record || {};
  return Object.fromEntries(Array.from({ length: record.length / 2 },
    (_, at) => [record[2 * at], record[2 * at + 1]]));
}
