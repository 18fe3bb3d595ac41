// Submits a task of compaction.
import { html, useState } from "../lib/ui.js";
import { Act } from "../lib/parts.js";

/** Options that are numbers. */
const NUMBERS = ["priority", "limit", "retries", "retry_failed", "budget", "min_score", "repeat"];

/** The body of a request: fields that are empty are left out. */
function body({ partitions, queue, ...wanted }) {
  const filled = Object.entries(wanted).filter(([, value]) => value !== "");
  const fields = Object.fromEntries(filled.map(([name, value]) => [name, NUMBERS.includes(name) ? Number(value) : value]));
  return { ...fields, queue: Boolean(queue), partitions: (partitions || "").split("\n").map((name) => name.trim()).filter(Boolean) };
}

export function Submit({ can, units }) {
  const [wanted, set] = useState({});
  if (!can) return null;
  const change = (name, value) => set({ ...wanted, [name]: value });
  const input = (name, title, more) => html`<label>${title} <input name=${name} ...${more} value=${wanted[name] || ""} onInput=${(event) => change(name, event.target.value)} /></label>`;
  const count = (name, title, placeholder, more = { min: 0 }) => input(name, title, { type: "number", placeholder, ...more });
  const select = (name, title, first, values) => html`<label>${title} <select name=${name} onChange=${(event) => change(name, event.target.value)}>
    <option value="">${first}</option>${values.map((value) => html`<option value=${value}>${value}</option>`)}</select></label>`;
  return html`<details class="submit"><summary>Submit a task</summary>
    <div class="form-groups">
      <fieldset><legend>Table</legend>
        ${input("db", "database", { size: 12 })} ${input("schema", "schema", { size: 12 })} ${input("table", "table", { size: 16 })}
        <label class="line"><input type="checkbox" checked=${wanted.queue} onChange=${(event) => change("queue", event.target.checked)} /> wait for the unfinished task of the table</label>
      </fieldset>
      <fieldset><legend>Partitions</legend>
        <label>only these, one a line <textarea rows="2" value=${wanted.partitions || ""} onInput=${(event) => change("partitions", event.target.value)}></textarea></label>
        ${count("budget", "at most", "all")} ${count("min_score", "minimum score", "any", { step: "any" })}
      </fieldset>
      <fieldset><legend>Rounds</legend>
        ${input("cron", "begin at (cron)", { size: 12, placeholder: "0 2 * * *" })} ${input("every", "or pause between", { size: 8, placeholder: "1h" })}
        ${count("repeat", "rounds, 0 without end", "")}
      </fieldset>
      <fieldset><legend>When</legend>
        ${input("window", "window", { size: 12, placeholder: "22:00-06:00" })} ${input("time_zone", "time zone", { size: 14, placeholder: "Europe/Berlin" })}
        ${count("priority", "priority", "0", {})} ${count("limit", "at once, at most", "any")}
      </fieldset>
      <fieldset><legend>Units</legend>
        ${select("node", "manager", "any unit", units.map((unit) => unit.node))}
        ${select("pc", "cluster", "of the manager", [...new Set(units.map((unit) => unit.pc))])}
      </fieldset>
      <fieldset><legend>Failures</legend>
        ${input("timeout", "time limit of a runner", { size: 8, placeholder: "30m" })} ${count("retries", "starts after a lost worker", "")}
        ${count("retry_failed", "retries of failed partitions", "0")} ${input("retry_delay", "first after", { size: 8, placeholder: "1m" })}
      </fieldset>
    </div>
    <div class="acts"><${Act} can=${can} tone="main" path="compaction/submit" disabled=${!wanted.db || !wanted.schema || !wanted.table} body=${() => body(wanted)} tell=${(id) => `task ${id}`}>Submit</${Act}></div>
  </details>`;
}
