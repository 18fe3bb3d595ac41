// Compaction: tasks with their progress, units with the partitions that they work on, and history.
import { html, useEffect, useMemo, useState } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { choose } from "../lib/address.js";
import { Act, Badge, Panel, Trouble } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { useLive } from "../lib/live.js";
import { number, percent, size, text, time } from "../lib/format.js";

/** The sums that the example runners report. */
const BEFORE = "before", AFTER = "after";

export function CompactionPage({ chosen, can }) {
  const { state, trouble } = useLive("compaction");
  const [history, setHistory] = useState([]);
  const ended = state ? state.tasks.filter((task) => task.over).length : 0;
  useEffect(() => {
    let live = true;
    get("compaction/history").then((found) => live && setHistory(found), () => {});
    return () => { live = false; };
  }, [ended]);
  const columns = useMemo(() => [
    { name: "id", title: "Task" },
    { name: "table", title: "Table" },
    { name: "state", title: "State", cell: (task) => html`<${Badge} tone=${task.failed ? "bad" : task.state === "Done" ? "good" : "plain"}>${task.failed ? `${task.failed} failed` : task.state}</${Badge}>` },
    { name: "done", title: "Partitions", right: true, cell: (task) => `${number(task.done)} of ${number(task.all)}` },
    { name: "before", title: "Before", right: true, of: (task) => task.sums[BEFORE] ?? null, cell: (task) => bytes(task.sums[BEFORE]) },
    { name: "after", title: "After", right: true, of: (task) => task.sums[AFTER] ?? null, cell: (task) => bytes(task.sums[AFTER]) },
    { name: "finished", title: "Finished", cell: (task) => time(task.finished) },
  ], []);
  if (!state) return html`<${Trouble} trouble=${trouble} /><h1 class="away">Reading</h1><p class="empty">${trouble ? "" : "Reading the tasks…"}</p>`;
  const live = state.tasks.filter((task) => !task.over);
  return html`
    <h1 class="away">Compaction</h1>
    <${Trouble} trouble=${trouble} />
    <div class="grid">
      <${Panel} title="Running and waiting tasks" wide>
        ${live.length ? live.map((task) => html`<${Task} key=${task.id} task=${task} can=${can} subtasks=${state.subtasks.filter((sub) => sub.task === task.id)} />`)
          : html`<p class="hint">No task runs. <code>allotd compaction submit DB SCHEMA TABLE</code> submits one.</p>`}
      </${Panel}>
      <${Panel} title="Units" wide>
        <div class="units">${state.units.map((unit) => html`<${Unit} key=${unit.node} unit=${unit} subtasks=${state.subtasks.filter((sub) => sub.worker === unit.node)} />`)}</div>
        ${state.units.length ? null : html`<p class="hint">No unit of compaction is there.</p>`}
      </${Panel}>
      <${Panel} title="History" wide>
        <${Table} id="history" label="Tasks that have ended" columns=${columns} rows=${history} none="no task has ended yet"
          pick=${(task) => choose({ task: task.id })} picked=${(task) => task.id === chosen.task} />
      </${Panel}>
      ${chosen.task ? html`<${Ended} task=${[...history, ...state.tasks].find((task) => task.id === chosen.task)} />` : null}
    </div>`;
}

const bytes = (value) => (value === undefined || value === null ? "–" : size(value));

function Task({ task, subtasks, can }) {
  const { id, done, failed, all, table } = task;
  const running = subtasks.filter((sub) => sub.running).length;
  return html`<div class="tree"><details open>
    <summary><b>${table}</b> <${Badge} tone=${task.paused ? "warn" : "held"}>${task.paused ? "paused" : task.state}</${Badge}>
      <span class="meter"><span style=${{ width: `${(100 * done) / Math.max(1, all)}%` }}></span></span>
      <span>${percent(done, all)}</span> <span class="hint">${number(done)} of ${number(all)} partitions, ${running} running${failed ? `, ${failed} failed` : ""}; manager ${text(task.manager)}</span></summary>
    ${task.error ? html`<p class="hint">${task.error}</p>` : null}
    <div class="cells" role="img" aria-label=${`${done} done, ${running} running, ${failed} failed`}>
      ${Array.from({ length: Math.min(done, 400) }, () => html`<span class="cell done"></span>`)}
      ${Array.from({ length: Math.min(failed, 100) }, () => html`<span class="cell failed">!</span>`)}
      ${subtasks.slice(0, 400).map((sub) => html`<span class=${`cell ${sub.running ? "running" : "waiting"}`} title=${`${sub.partition} on ${sub.worker}`}></span>`)}
    </div>
    ${can ? html`<div class="acts">
      <${Act} can=${can} path="compaction/pause" body=${() => ({ id, resume: task.paused })}>${task.paused ? "Resume" : "Pause"}</${Act}>
      <${Act} can=${can} tone="danger" path="compaction/stop" ask=${`Stop the task on ${table}?`} body=${() => ({ id })}>Stop</${Act}></div>` : null}
  </details></div>`;
}

function Unit({ unit, subtasks }) {
  const running = subtasks.filter((sub) => sub.running);
  return html`<div class="unit"><div class="head"><span class="name">${unit.node}</span>${unit.monitor ? html`<${Badge} tone="good">monitor</${Badge}>` : null}</div>
    <div class="room"><b>${number(running.length)}</b> <span class="hint">of ${number(unit.slots)} slots, cluster ${unit.pc}</span></div>
    <div class="cells">${subtasks.slice(0, 120).map((sub) => html`<span class=${`cell ${sub.running ? "running" : "waiting"}`} title=${sub.partition}></span>`)}</div>
    <div class="hint">since ${time(unit.started)}</div></div>`;
}

function Ended({ task }) {
  if (!task) return null;
  const { table, done, failed, stopped } = task;
  return html`<${Panel} title=${`Task ${task.id}`} wide extra=${html`<button type="button" class="quiet" onClick=${() => choose({ task: null })}>Close</button>`}>
    <p>${table}: ${number(done)} well, ${number(failed)} failed, ${number(stopped)} stopped. Created ${time(task.created)}, finished ${time(task.finished)}.</p>
    ${task.error ? html`<p class="hint">${task.error}</p>` : null}
    ${Object.entries(task.sums).map(([name, sum]) => html`<p class="hint">${name}: ${number(sum)}</p>`)}
    ${task.failures.map((failure) => html`<details><summary>${failure.partition} at ${failure.worker}: ${failure.message}</summary><pre>${failure.output}</pre></details>`)}
  </${Panel}>`;
}
