// Numbers, times and sizes for people.

const whole = new Intl.NumberFormat("en");

/** @param {number | string | null | undefined} value */
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(Number(value)));

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

/** A time of day. @param {number} ms since 1970 */
export function clock(ms) {
  if (!ms) return "–";
  return new Date(Number(ms)).toLocaleTimeString("en-GB");
}

/** A date and a time. @param {number} ms since 1970 */
export function time(ms) {
  if (!ms) return "–";
  return `${new Date(Number(ms)).toLocaleDateString("en-CA")} ${clock(ms)}`;
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
