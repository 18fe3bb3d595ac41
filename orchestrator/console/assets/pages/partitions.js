// The partitions of the running rounds: a grid with a row for each unit, and the same as a table.
import { html, useMemo, useState } from "../lib/ui.js";
import { Act, Badge } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { number } from "../lib/format.js";

/** States with their names and marks; a mark does not need colour. */
const STATES = { running: ["running", "▸"], waiting: ["waiting", ""], done: ["done", "✓"], failed: ["failed", "!"],
  ended: ["done or stopped", "·"], unassigned: ["no unit yet", ""] };
const TONES = { running: "held", done: "good", failed: "bad" };

/** The id of a partition's task: that of its subtask with the number 0. @param {{id: string}} one */
export const taskOf = (one) => one.id.replace(/\.\d+$/, ".0");

export function Grid({ tasks, units, partitions, can, chosen }) {
  const [listed, setListed] = useState(Boolean(chosen["partitions.find"] || chosen["partitions.sort"]));
  const tables = useMemo(() => new Map(tasks.map((task) => [task.id, task])), [tasks]);
  const rows = useMemo(() => {
    const found = new Map(units.map((unit) => [unit.node, []]));
    for (const one of partitions) {
      const row = one.worker || (one.state === "unassigned" ? "no unit yet" : "ended before");
      if (!found.has(row)) found.set(row, []);
      found.get(row).push(one);
    }
    return [...found];
  }, [units, partitions]);
  const columns = useMemo(() => [
    { name: "partition", title: "Partition" },
    { name: "table", title: "Table", of: (one) => tables.get(taskOf(one))?.table },
    { name: "worker", title: "Unit" },
    { name: "state", title: "State", cell: (one) => html`<${Badge} tone=${TONES[one.state] || "plain"}>
      ${STATES[one.state][0]}</${Badge}>` },
    ...(can ? [{ name: "act", title: "Action", of: () => "",
      cell: (one) => (one.state === "waiting" && units.length > 1
      ? html`<${Act} can=${can} path="compaction/reassign" body=${() => ({ id: one.id })}
        ask=${`Give the partition ${one.partition} to another unit?`}
        tell=${(unit) => `to ${unit}`}>Reassign</${Act}>` : null) }] : []),
  ], [tables, can, units.length > 1]);
  if (!partitions.length) return html`<p class="hint">No round runs.</p>`;
  return html`
    <div class="key">${Object.entries(STATES).map(([state, [title, mark]]) => html`<span><i class=${`cell ${state}`}>
      ${mark}</i>${title}</span>`)}</div>
    <div class="partition-grid">${rows.map(([row, cells]) => html`<div class="lane" key=${row}>
      <span class="name">${row}</span>
      <div class="cells" role="img" aria-label=${`${row}: ${summary(cells)}`}>
        ${cells.map((one) => html`<span key=${one.id} class=${`cell ${one.state}`}
          title=${`${one.partition} of ${tables.get(taskOf(one))?.table}: ${STATES[one.state][0]}`}>
          ${STATES[one.state][1]}</span>`)}
      </div><span class="hint">${summary(cells)}</span></div>`)}</div>
    <div class="acts"><button type="button" class="quiet" aria-expanded=${listed} onClick=${() => setListed(!listed)}>
      ${listed ? "Hide the table" : "Show as a table"}</button></div>
    ${listed ? html`<${Table} id="partitions" label="Partitions of the running rounds" columns=${columns}
      rows=${partitions} />` : null}`;
}

/** How many partitions are in which state. */
function summary(cells) {
  const counts = {};
  for (const { state } of cells) counts[state] = (counts[state] || 0) + 1;
  const found = Object.keys(STATES).filter((state) => counts[state]);
  return found.length ? found.map((state) => `${number(counts[state])} ${STATES[state][0]}`).join(", ") : "nothing";
}
