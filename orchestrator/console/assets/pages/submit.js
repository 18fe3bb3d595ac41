// Submits a task of compaction.
import { html, useState } from "../lib/ui.js";
import { Act } from "../lib/parts.js";

const EMPTY = { db: "", schema: "", table: "", partitions: "", node: "", priority: "", limit: "", window: "", retry_failed: "", queue: false };

/** The body of a request: empty fields are left out. */
function body(wanted) {
  const { db, schema, table } = wanted;
  const count = (value) => (value === "" ? null : Number(value));
  return {
    db, schema, table, partitions: wanted.partitions.split("\n").map((name) => name.trim()).filter(Boolean), node: wanted.node || null,
    priority: count(wanted.priority), limit: count(wanted.limit), window: wanted.window || null, retry_failed: count(wanted.retry_failed), queue: wanted.queue,
  };
}

export function Submit({ can, units }) {
  const [wanted, set] = useState(EMPTY);
  if (!can) return null;
  const input = (name, title, more) => html`<label>${title} <input name=${name} ...${more} value=${wanted[name]} onInput=${(event) => set({ ...wanted, [name]: event.target.value })} /></label>`;
  return html`<details class="submit"><summary>Submit a task</summary>
    <div class="acts form">
      ${input("db", "database", { size: 12 })} ${input("schema", "schema", { size: 12 })} ${input("table", "table", { size: 16 })}
      <label>manager <select onChange=${(event) => set({ ...wanted, node: event.target.value })}>
        <option value="">by hashing</option>${units.map((unit) => html`<option value=${unit.node}>${unit.node}</option>`)}</select></label>
      ${input("priority", "priority", { type: "number", placeholder: "0" })}
      ${input("limit", "at once, at most", { type: "number", min: 0, placeholder: "any" })}
      ${input("retry_failed", "retries of failed", { type: "number", min: 0, placeholder: "0" })}
      ${input("window", "window", { size: 12, placeholder: "22:00-06:00" })}
      <label>only these partitions, one a line <textarea rows="2" value=${wanted.partitions} onInput=${(event) => set({ ...wanted, partitions: event.target.value })}></textarea></label>
      <label>wait for the table's task <input type="checkbox" checked=${wanted.queue} onChange=${(event) => set({ ...wanted, queue: event.target.checked })} /></label>
      <${Act} can=${can} tone="main" path="compaction/submit" disabled=${!wanted.db || !wanted.schema || !wanted.table} body=${() => body(wanted)} tell=${(id) => `task ${id}`}>Submit</${Act}>
    </div></details>`;
}
