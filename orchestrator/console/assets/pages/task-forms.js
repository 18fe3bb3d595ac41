// The forms of a task of compaction: one submits a task, the other changes options of an unfinished one.
import { html, useState } from "../lib/ui.js";
import { Act } from "../lib/parts.js";

/** Options that are numbers. */
const NUMBERS = ["priority", "limit", "retries", "retry_failed", "budget", "min_score", "repeat"];

/**
 * What was written into a form, and its fields. In `options`, fields that are empty are left out, as the API wants
 * it; the fields of `shared` are those of both forms.
 */
function useOptions() {
  const [written, set] = useState({});
  const change = (name, value) => set((before) => ({ ...before, [name]: value }));
  const input = (name, title, more) => html`<label>${title} <input name=${name} ...${more}
    value=${written[name] || ""} onInput=${(event) => change(name, event.target.value)} /></label>`;
  const count = (name, title, placeholder, more = /** @type {object} */ ({ min: 0 })) => input(name, title,
    { type: "number", placeholder, ...more });
  const filled = Object.entries(written).filter(([, value]) => value !== "");
  const options = Object.fromEntries(filled.map(([name, value]) => [name, NUMBERS.includes(name) ? Number(value)
    : value]));
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

/** The body of a submission. @param {Record<string, any>} options */
function body({ partitions, queue, ...options }) {
  return { ...options, queue: Boolean(queue), partitions: (partitions
    || "").split("\n").map((name) => name.trim()).filter(Boolean) };
}

/** Submits a task. */
export function Submit({ can, units }) {
  const { written, options, change, input, count, shared } = useOptions();
  if (!can) return null;
  const select = (name, title, first, values) => html`<label>
    ${title} <select name=${name} onChange=${(event) => change(name, event.target.value)}>
    <option value="">${first}</option>${values.map((value) => html`<option value=${value}>${value}</option>`)}</select>
      </label>`;
  return html`<details class="submit"><summary>Submit a task</summary>
    <div class="form-groups">
      <fieldset><legend>Table</legend>
        ${input("db", "database", { size: 12 })} ${input("schema", "schema", { size: 12 })} ${input("table", "table",
          { size: 16 })}
        <label class="line"><input type="checkbox" checked=${written.queue}
          onChange=${(event) => change("queue",
          event.target.checked)} /> wait for the unfinished task of the table</label>
      </fieldset>
      <fieldset><legend>Partitions</legend>
        <label>only these, one a line <textarea rows="2" value=${written.partitions || ""}
          onInput=${(event) => change("partitions", event.target.value)}></textarea></label>
        ${count("budget", "at most", "all")} ${count("min_score", "minimum score", "any", { step: "any" })}
      </fieldset>
      <fieldset><legend>Rounds</legend>
        ${input("cron", "begin at (cron)", { size: 12, placeholder: "0 2 * * *" })} ${input("every",
          "or pause between", { size: 8, placeholder: "1h" })}
        ${count("repeat", "rounds, 0 without end", "")} ${input("after", "each after one of this task or table",
          { size: 16, placeholder: "shop.public.orders" })}
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
        ${count("retry_failed", "retries of failed partitions", "0")} ${input("retry_delay", "first after",
          { size: 8, placeholder: "1m" })}
      </fieldset>
    </div>
    <div class="acts"><${Act} can=${can} tone="main" path="compaction/submit"
      ask=${`Submit a task on ${written.db}.${written.schema}.${written.table}${options.cron || options.every
        ? `, with rounds ${options.cron ? `at ${options.cron}` : `every ${options.every}`}` : ""}?`}
      disabled=${!written.db || !written.schema || !written.table} body=${() => body(options)}
      tell=${(id) => `task ${id}`}>Submit</${Act}></div>
  </details>`;
}

/** Changes options of an unfinished task. */
export function Change({ can, task }) {
  const { options, input, count, shared, clear } = useOptions();
  if (!can) return null;
  return html`<details class="submit"><summary>Change options</summary>
    <p class="hint">An empty field leaves its option as it is. The changes are for partitions that have not begun.
      The window <code>any</code> is the whole day.</p>
    <div class="form-groups">
      <fieldset><legend>When</legend>
        ${shared.window(task.window
          || "any")} ${shared.timeZone()} ${shared.priority(task.priority)} ${shared.limit(task.limit || "any")}
      </fieldset>
      <fieldset><legend>Failures</legend>
        ${shared.timeout(task.timeout ? `${task.timeout}s` : "of the unit")} ${shared.retries(task.retries)}
        ${count("retry_failed", "retries of failed partitions", task.retry_failed)}
      </fieldset>
      <fieldset><legend>Rounds</legend>
        ${input("cron", "begin at (cron)", { size: 12, placeholder: task.schedule || "0 2 * * *" })} ${input("every",
          "or pause between", { size: 8, placeholder: task.every ? `${task.every}s` : "1h" })}
        ${count("repeat", "rounds, 0 without end", task.rounds)}
      </fieldset>
    </div>
    <div class="acts"><${Act} can=${can} path="compaction/set" disabled=${!Object.keys(options).length}
      ask=${`Change the task on ${task.table}: ${Object.entries(options).map(([name,
        value]) => `${name} to ${value}`).join(", ")}?`}
      body=${() => ({ ...options, id: task.id })} done=${clear} tell=${() => "changed"}>Change</${Act}></div>
  </details>`;
}
