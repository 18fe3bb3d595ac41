// Compaction: tasks with their progress, a grid of units and partitions, throughput, history, and what an operator
// does.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { visit } from "../lib/address.js";
import { Act, Badge, Page, Panel, Reading } from "../lib/parts.js";
import { Chart } from "../lib/chart.js";
import { Table } from "../lib/table.js";
import { useLatest, useLive } from "../lib/live.js";
import { clock, number, percent, size, span, text, time } from "../lib/format.js";
import { Grid, taskOf } from "./partitions.js";
import { Schedules, timing } from "./schedules.js";
import { Change, Submit } from "./task-forms.js";

/** The sums that the example runners report. */
const BEFORE = "before", AFTER = "after";

export function CompactionPage({ chosen, can }) {
  const { state, trouble, failures, partitions: { items: partitions, more } } = useLive("compaction");
  const [wanted, want] = useState(/** @type {Record<string, string>} */ ({}));
  const history = useHistory(state ? state.ends : null, wanted);
  const columns = useMemo(() => [
    { name: "id", title: "Task" },
    { name: "round", title: "Round", right: true, of: (task) => (isRound(task) ? task.round : null) },
    { name: "table", title: "Table" },
    { name: "state", title: "State", cell: (task) => html`<${Badge}
      tone=${task.failed ? "bad" : task.state === "Done" ? "good" : "plain"}>
      ${task.failed ? `${task.failed} failed` : task.state}</${Badge}>` },
    { name: "done", title: "Partitions", right: true, cell: (task) => `${number(task.done)} of ${number(task.all)}` },
    { name: "before", title: "Before", right: true, of: (task) => task.sums[BEFORE] ?? null,
      cell: (task) => bytes(task.sums[BEFORE]) },
    { name: "after", title: "After", right: true, of: (task) => task.sums[AFTER] ?? null,
      cell: (task) => bytes(task.sums[AFTER]) },
    { name: "finished", title: "Finished", cell: (task) => time(task.finished) },
  ], []);
  if (!state) return html`<${Reading} trouble=${trouble} what="the tasks" />`;
  const { tasks, units, away, points, paused } = state;
  const running = partitions.filter((one) => one.state === "running");
  return html`<${Page} trouble=${trouble} title="Compaction">
    <div class="grid">
      <${Panel} title="Running and waiting tasks" wide>
        ${paused
          ? html`<p class="hint">All tasks are paused; <code>allot task resume --all</code> ends that.</p>` : null}
        ${tasks.length ? tasks.map((task) => html`<${Task} key=${task.id} task=${task} can=${can} units=${units}
          now=${state.now} running=${running.filter((one) => taskOf(one) === task.id).length} />`)
          : html`<p class="hint">No task runs. <code>allot task submit DB.SCHEMA.TABLE</code> submits one.</p>`}
        <${Submit} can=${can} units=${units.filter((unit) => !unit.drained)} />
      </${Panel}>
      <${Schedules} tasks=${tasks} now=${state.now} ends=${state.ends} chosen=${chosen} can=${can} />
      <${Panel} title="Partitions by unit" wide extra=${more
        ? html`<span class="hint">the first ${number(partitions.length)} partitions</span>` : null}>
        <${Grid} tasks=${tasks} units=${units} partitions=${partitions} can=${can} chosen=${chosen} />
      </${Panel}>
      <${Panel} title="Throughput" wide>
        <${Chart} label="Partitions a second" at=${points.map((point) => point.at)}
          lines=${[{ name: "partitions a second", values: points.map((point) => point.value[0]), colour: "--blue",
            fill: true }]} />
        <p class="hint">Compacted now: ${size(Math.round(points.at(-1)?.value[1] ?? 0))} a second.</p>
      </${Panel}>
      <${Panel} title="Units" wide>
        <div class="units">${units.map((unit) => html`<${Unit} key=${unit.node} unit=${unit} can=${can}
          running=${running.filter((one) => one.worker === unit.node).length} />`)}</div>
        ${units.length ? null : html`<p class="hint">No unit of compaction is there.</p>`}
        ${away.length ? html`<h2 style=${{ margin: "12px 0 6px" }}>Away</h2>
          <ul class="plan" aria-label="Units that are away">
          ${away.map((unit) => html`<${Away} key=${unit.node} unit=${unit} can=${can} />`)}</ul>` : null}
      </${Panel}>
      <${Panel} title="History" wide>
        <${Narrow} wanted=${wanted} want=${want} />
        <${Table} id="history" label="Tasks and rounds that have ended" columns=${columns} rows=${history.tasks}
          none="no task and no round has ended so"
          pick=${(task) => visit({ task: task.id, round: isRound(task) ? task.round : null })}
          picked=${(task) => isChosen(task, chosen)} />
        ${history.next ? html`<div class="acts"><button type="button" onClick=${history.more}>Older tasks</button>
          </div>` : null}
        ${history.trouble ? html`<p class="hint">${history.trouble}</p>` : null}
      </${Panel}>
      ${chosen.task ? html`<${Ended} task=${[...tasks, ...history.tasks].find((task) => isChosen(task, chosen))}
        failures=${failures[chosen.task]} can=${can} />` : null}
    </div></${Page}>`;
}

const bytes = (value) => (value === undefined || value === null ? "–" : size(value));

/** Whether this is one round of a task. */
const isRound = (task) => task.kind === "round";

/** The name of a task, or of one of its rounds. */
const nameOf = (task) => (isRound(task) ? `${task.id}:${task.round}` : task.id);

/** Whether the address names this task or this round of it. */
const isChosen = (task, chosen) => nameOf(task) === (chosen.round ? `${chosen.task}:${chosen.round}` : chosen.task);

/**
 * What is wanted of the history, page by page; its first page is read again when a task or a round ends.
 * @param {number | null} ends @param {Record<string, string>} wanted
 */
function useHistory(ends, wanted) {
  const none = { tasks: [], next: null, trouble: "" };
  const [held, set] = useState(none);
  const latest = useRef(wanted);
  const read = useCallback((cursor) => get("compaction/history", { ...wanted, cursor }).then(
    (found) => set((old) => {
      // Something else is wanted meanwhile.
      if (latest.current !== wanted) return old;
      // A task that was packed or ran again meanwhile is in two pages: the page that was read last has it as it is.
      const fresh = new Set(found.items.map(nameOf));
      const others = old.tasks.filter((task) => !fresh.has(nameOf(task)));
      const tasks = cursor ? [...others, ...found.items] : [...found.items, ...others];
      return { tasks, next: cursor || !old.tasks.length ? found.next : old.next, trouble: "" };
    }),
    (error) => set((old) => ({ ...old, trouble: error.message })),
  ), [wanted]);
  useEffect(() => {
    latest.current = wanted;
    set(none);
  }, [wanted]);
  useEffect(() => { if (ends !== null) read(undefined); }, [ends, wanted]);
  return { ...held, more: () => read(held.next) };
}

/** Narrows the history. Fields that are empty leave nothing out. */
function Narrow({ wanted, want }) {
  const [written, set] = useState(wanted);
  const field = (name, title, placeholder = "any") => html`<label>${title} <input name=${`history-${name}`} size="12"
    placeholder=${placeholder} value=${written[name] || ""}
    onInput=${(event) => set({ ...written, [name]: event.target.value.trim() })} /></label>`;
  const submit = (event) => {
    event.preventDefault();
    want(Object.fromEntries(Object.entries(written).filter(([, value]) => value !== "")));
  };
  return html`<form class="acts" onSubmit=${submit}>
    ${field("db", "database")} ${field("schema", "schema")} ${field("table", "table")}
    <label>ended as <select name="history-state" onChange=${(event) => set({ ...written, state: event.target.value })}>
      <option value="">any</option><option value="done">Done</option><option value="cancel">Cancel</option></select>
    </label>
    ${field("from", "from", "12h")} ${field("to", "to", "now")}
    <button type="submit">Find</button></form>`;
}

function Task({ task, running, units, now, can }) {
  const { id, done, failed, all, table } = task;
  const [reasons, setReasons] = useState(null);
  const explain = () => get("compaction/explain", { id }).then(setReasons, (error) => setReasons([error.message]));
  const state = task.stopping ? "stopping" : task.paused ? "paused" : task.state;
  return html`<div class="tree"><details open>
    <summary><b>${table}</b> <${Badge} tone=${task.paused || task.stopping ? "warn" : "held"}>${state}</${Badge}>
      <span class="meter"><span style=${{ width: `${(100 * done) / Math.max(1, all)}%` }}></span></span>
      <span>${percent(done, all)}</span> <span class="hint">
        ${number(done)} of ${number(all)} partitions, ${running} running${failed ? `, ${failed} failed`
        : ""}${timing(task, now) && `, ${timing(task, now)}`}; manager ${text(task.manager)}
        ${task.priority ? `, priority ${task.priority}` : ""}${task.follows
        ? `, follows ${task.follows}` : ""}</span></summary>
    ${task.error ? html`<p class="hint">${task.error}</p>` : null}
    ${Object.keys(task.sums).length
      ? html`<p class="hint">${bytes(task.sums[BEFORE])} before, ${bytes(task.sums[AFTER])} after compaction</p>`
      : null}
    <div class="acts">
      <button type="button" onClick=${explain} aria-expanded=${reasons !== null}>Explain</button>
      <${Act} can=${can} path="compaction/pause" ask=${task.paused
        ? `Let the task on ${table} go on? ${number(all - done - failed)} partitions are left.`
        : `Pause the task on ${table}? Its ${running} running partitions end, and no other begins.`}
        body=${() => ({ id, resume: task.paused })}>
        ${task.paused ? "Resume" : "Pause"}</${Act}>
      <${Reassign} can=${can} id=${id} units=${units.filter((unit) => unit.pc === task.pc
        && unit.node !== task.manager && !unit.drained)} />
      <${Act} can=${can} tone="danger" path="compaction/stop" ask=${`Stop the task on ${table}?`}
        body=${() => ({ id })}>Stop</${Act}></div>
    <${Change} can=${can} task=${task} />
    ${reasons ? html`<ul class="reasons" role="status">${reasons.map((reason) => html`<li>${reason}</li>`)}</ul>`
      : null}
  </details></div>`;
}

/** Gives a task to another manager. */
function Reassign({ can, id, units }) {
  const [to, setTo] = useState("");
  if (!can || !units.length) return null;
  return html`<span class="act"><select aria-label="The next manager" onChange=${(event) => setTo(event.target.value)}>
      <option value="">any unit</option>${units.map((unit) => html`<option value=${unit.node}>${unit.node}</option>`)}
        </select>
    <${Act} can=${can} path="compaction/reassign" ask=${`Give the task ${id} to ${to || "any other unit"}?`}
      body=${() => ({ id, to: to || null })}
      tell=${(unit) => `to ${unit}`}>Reassign</${Act}></span>`;
}

function Unit({ unit, running, can }) {
  const { node, drained, refusal } = unit;
  const ask = `Drain ${node}? It finishes the ${running} subtasks that run, and others take those that wait.`;
  return html`<div class="unit"><div class="head"><span class="name">${node}</span>
      ${unit.monitor ? html`<${Badge} tone="good">monitor</${Badge}>` : null}
      ${drained ? html`<${Badge} tone="warn">drained</${Badge}>` : null}
      ${refusal ? html`<${Badge} tone="bad">cannot run runners</${Badge}>` : null}</div>
    ${refusal ? html`<p class="trouble">${refusal.why}. ${refusal.until
      ? `It starts nothing until ${clock(refusal.until)}.` : "It starts nothing for a while."}</p>` : null}
    <div class="room"><b>${number(running)}</b> <span class="hint">of ${number(unit.slots)} slots, cluster ${unit.pc}
      </span></div>
    <div class="hint">since ${time(unit.started)}</div>
    <${Act} can=${can} path="compaction/drain" ask=${drained ? null : ask} body=${() => ({ node, drained: !drained })}>
      ${drained ? "Undrain" : "Drain"}</${Act}></div>`;
}

/** A unit that was here. A drain outlasts its absence. */
function Away({ unit: { node, drained, since }, can }) {
  return html`<li><span>${node} ${drained ? html`<${Badge} tone="warn">drained</${Badge}>` : null}
    <span class="hint">${since ? `away since ${time(since)}` : "away"}</span></span>
    <${Act} can=${can} path="compaction/drain" body=${() => ({ node, drained: !drained })}
      ask=${drained ? `Undrain ${node}? It takes subtasks again when it comes back.`
        : `Drain ${node}? It takes no subtasks when it comes back.`}>${drained ? "Undrain" : "Drain"}</${Act}></li>`;
}

function Ended({ task, failures, can }) {
  if (!task) return null;
  const { id, table, done, failed, stopped } = task;
  const round = isRound(task) ? task.round : undefined;
  return html`<${Panel} title=${round ? `Round ${round} of task ${id}` : `Task ${id}`} wide extra=${html`<button
    type="button" class="quiet" onClick=${() => visit({ task: null, round: null })}>Close</button>`}>
    <p>${table}: ${number(done)} done, ${number(failed)} failed, ${number(stopped)} stopped.
      Created ${time(task.created)}, started ${time(task.started)}, finished ${time(task.finished)}${task.started
      && task.finished ? `, after ${span(task.finished - task.started)}` : ""}.</p>
    ${task.error ? html`<p class="hint">${task.error}</p>` : null}
    ${Object.entries(task.sums).map(([name, sum]) => html`<p class="hint">${name}: ${number(sum)}</p>`)}
    <${Failures} key=${nameOf(task)} id=${id} round=${round} failed=${failed}
      last=${task.failures || (round ? [] : failures) || []} />
    ${failed && task.over && !round ? html`<div class="acts"><${Act} can=${can} path="compaction/retry"
      ask=${`Run ${failed} failed partitions of ${table} again?`} body=${() => ({ id })}>Retry failed</${Act}></div>`
      : null}
  </${Panel}>`;
}

/** The last failures of a task or of a round, and all of them, page by page, for those who ask. */
function Failures({ id, round, failed, last }) {
  const [{ all, next, trouble }, set] = useState({ all: null, next: null, trouble: "" });
  const latest = useLatest();
  const read = (cursor) => {
    // The page that was asked for last is added, and once.
    const isWanted = latest();
    get("compaction/failures", { id, round, cursor }).then(
      (found) => isWanted() && set((old) => ({ all: [...(cursor ? old.all : []), ...found.items], next: found.next,
        trouble: "" })),
      (error) => isWanted() && set((old) => ({ ...old, trouble: error.message })),
    );
  };
  return html`${(all || last).map((failure) => html`<details><summary>
    ${failure.partition} at ${failure.worker}: ${failure.message}</summary><pre>${failure.output}</pre></details>`)}
    ${all === null && failed > last.length ? html`<div class="acts">
      <button type="button" onClick=${() => read(undefined)}>All ${number(failed)} failures</button></div>` : null}
    ${next === null ? null : html`<div class="acts"><button type="button"
      onClick=${() => read(next)}>More failures</button></div>`}
    ${trouble ? html`<p class="hint">${trouble}</p>` : null}`;
}
