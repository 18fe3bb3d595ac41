// Imports a table of accounts into a book: first says what would change, then changes it.
import { html, useState } from "../lib/ui.js";
import { get, send } from "../lib/api.js";
import { Act, Panel } from "../lib/parts.js";
import { useAsk, useLatest } from "../lib/live.js";
import { number, size } from "../lib/format.js";

/** Longest table that is shown for changes by hand, in characters. */
const SHOWN = 100000;
/** Interval at which the last import is read, in milliseconds: it goes on without the page that began it. */
const LAST_INTERVAL = 5000;

/** What became of the last import. */
function said({ running, result, problem }) {
  if (running) return "An import runs.";
  return problem ? `The last import: ${problem.message}` : done(result);
}

const done = ({ changes, warning }) => `${number(changes)} changes made${warning ? `; ${warning}` : ""}`;

export function ImportPanel({ name, can }) {
  const [table, setTable] = useState("");
  const [remove, setRemove] = useState(false);
  const [plan, setPlan] = useState(null);
  const [trouble, setTrouble] = useState("");
  const latest = useLatest();
  const { answer: last } = useAsk(() => (can ? get("book/import", { key: name }) : Promise.resolve(null)),
    [name, can], LAST_INTERVAL);
  if (!can) return null;
  const body = (dry) => ({ key: name, table, delete: remove, dry_run: dry, seen: dry ? null : plan.comparison });
  const change = (text) => { latest(); setTable(text); setPlan(null); setTrouble(""); };
  // A comparison with a table that was changed meanwhile is worth nothing.
  const compare = () => {
    const isWanted = latest();
    send("book/import", body(true)).then(
      (answer) => { if (isWanted()) { setPlan(answer.result); setTrouble(""); } },
      (error) => { if (isWanted()) { setPlan(null); setTrouble(error.message); } },
    );
  };
  const read = (event) => {
    const isWanted = latest();
    event.target.files[0]?.text().then((text) => isWanted() && change(text));
  };
  return html`<${Panel} title="Import" wide id="import">
    <p class="hint">A table (CSV) with the columns department, module, account, quota and tiers,
      as <code>allot book export</code> prints it.</p>
    <div class="acts form">
      <label>file <input type="file" accept=".csv,text/csv" onChange=${read} /></label>
      ${table.length > SHOWN ? html`<span class="hint">a table of ${size(table.length)}</span>`
        : html`<label>or the table itself
        <textarea rows="4" cols="60" value=${table} onInput=${(event) => change(event.target.value)}></textarea>
          </label>`}
      <label>delete accounts that the table does not have <input type="checkbox" checked=${remove}
        onChange=${(event) => { latest(); setRemove(event.target.checked); setPlan(null); }} /></label>
      <button type="button" disabled=${!table} onClick=${compare}>Compare</button>
    </div>
    ${last && !plan ? html`<p class="hint" role="status">${said(last)}</p>` : null}
    ${trouble ? html`<p class="trouble" role="alert">${trouble}</p>` : null}
    ${plan ? html`<ul class="reasons">${plan.lines.map((line) => html`<li>${line}</li>`)}</ul>
      <div class="acts">${plan.changes ? html`<${Act} can=${can} tone="main" path="book/import"
        body=${() => body(false)} tell=${done}
        ask=${`Change ${number(plan.changes)} modules and accounts?`}>Apply ${number(plan.changes)} changes</${Act}>`
          : html`<span class="hint">Nothing to change.</span>`}</div>` : null}
  </${Panel}>`;
}
