// Who did what: the actions of operators, the newest on top.
import { html } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { Badge, Panel } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { useAsk } from "../lib/live.js";
import { number, time } from "../lib/format.js";

/** Interval at which the actions are read, in milliseconds. */
const INTERVAL = 5000;
/** Most actions that the console keeps. */
const MOST = 2000;

const TONES = { done: "good", unknown: "warn" };

const COLUMNS = [
  { name: "time", title: "Time", of: (row) => time(row.at) },
  { name: "user", title: "Operator" },
  { name: "action", title: "Action" },
  { name: "target", title: "Target" },
  { name: "outcome", title: "Outcome",
    cell: (row) => html`<${Badge} tone=${TONES[row.outcome] || "bad"}>${row.outcome}</${Badge}>` },
  { name: "address", title: "Address" },
  { name: "session", title: "Session" },
];

export function ActionsPage() {
  const { answer, wrong } = useAsk(() => get("actions"), [], INTERVAL);
  const count = answer?.length || 0;
  return html`<h1 class="away">Actions</h1>
    <${Panel} title="Actions of operators" wide
      extra=${count >= MOST ? html`<span class="hint">the last ${number(count)}; the log has all</span>` : null}>
      ${wrong ? html`<p class="trouble" role="alert">The actions cannot be read: ${wrong}</p>` : null}
      <${Table} id="actions" label="Actions of operators" columns=${COLUMNS} rows=${answer || []}
        none=${answer ? "nobody has acted since the console keeps actions" : "reading…"} />
    </${Panel}>`;
}
