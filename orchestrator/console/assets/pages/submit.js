// Submits a task of compaction.
import { html } from "../lib/ui.js";
import { Act } from "../lib/parts.js";
import { useOptions } from "./options.js";

/** The body of a request. */
function body({ partitions, queue, ...options }) {
  return { ...options, queue: Boolean(queue), partitions: (partitions || "").split("\n").map((name) => name.trim()).filter(Boolean) };
}

export function Submit({ can, units }) {
  const { written, options, change, input, count, shared } = useOptions();
  if (!can) return null;
  const select = (name, title, first, values) => html`<label>${title} <select name=${name} onChange=${(event) => change(name, event.target.value)}>
    <option value="">${first}</option>${values.map((value) => html`<option value=${value}>${value}</option>`)}</select></label>`;
  return html`<details class="submit"><summary>Submit a task</summary>
    <div class="form-groups">
      <fieldset><legend>Table</legend>
        ${input("db", "database", { size: 12 })} ${input("schema", "schema", { size: 12 })} ${input("table", "table", { size: 16 })}
        <label class="line"><input type="checkbox" checked=${written.queue} onChange=${(event) => change("queue", event.target.checked)} /> wait for the unfinished task of the table</label>
      </fieldset>
      <fieldset><legend>Partitions</legend>
        <label>only these, one a line <textarea rows="2" value=${written.partitions || ""} onInput=${(event) => change("partitions", event.target.value)}></textarea></label>
        ${count("budget", "at most", "all")} ${count("min_score", "minimum score", "any", { step: "any" })}
      </fieldset>
      <fieldset><legend>Rounds</legend>
        ${input("cron", "begin at (cron)", { size: 12, placeholder: "0 2 * * *" })} ${input("every", "or pause between", { size: 8, placeholder: "1h" })}
        ${count("repeat", "rounds, 0 without end", "")}
      </fieldset>
      <fieldset><legend>When</legend>
        ${shared.window()} ${shared.timeZone()} ${shared.priority()} ${shared.limit()}
      </fieldset>
      <fieldset><legend>Units</legend>
        ${select("node", "manager", "any unit", units.map((unit) => unit.node))}
        ${select("pc", "cluster", "of the manager", [...new Set(units.map((unit) => unit.pc))])}
      </fieldset>
      <fieldset><legend>Failures</legend>
        ${shared.timeout()} ${shared.retries()}
        ${count("retry_failed", "retries of failed partitions", "0")} ${input("retry_delay", "first after", { size: 8, placeholder: "1m" })}
      </fieldset>
    </div>
    <div class="acts"><${Act} can=${can} tone="main" path="compaction/submit" disabled=${!written.db || !written.schema || !written.table} body=${() => body(options)} tell=${(id) => `task ${id}`}>Submit</${Act}></div>
  </details>`;
}
