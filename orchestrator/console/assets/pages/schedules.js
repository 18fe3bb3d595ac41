// Schedules of compaction: tasks with more than one round, when the next round begins, and how long rounds take.
import { html, useMemo } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { visit } from "../lib/address.js";
import { Panel } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { useAsk } from "../lib/live.js";
import { number, span, text, time } from "../lib/format.js";
import { Change } from "./task-forms.js";

/** Whether a task has more than one round. */
export const isRepeated = (task) => task.rounds !== 1;

/** When rounds begin, in words. */
const when = (task) => task.schedule || `${span(task.every * 1000)} after the round before`;

/**
 * How long the current round has run, and how long it will go on if it goes on like this; null if that is not known.
 * @param {any} task @param {number} now @returns {{elapsed: number, rest: number | null} | null}
 */
export function progress(task, now) {
  if (!task.round_runs || !task.round_started) return null;
  const ended = task.done + task.failed + task.stopped, elapsed = Math.max(0, now - task.round_started);
  return { elapsed, rest: ended ? (elapsed * Math.max(0, task.all - ended)) / ended : null };
}

/** A progress in words. @param {any} task @param {number} now */
export function timing(task, now) {
  const known = progress(task, now);
  if (!known) return "";
  return `for ${span(known.elapsed)}, ${known.rest === null ? "rest unknown" : `about ${span(known.rest)} left`}`;
}

/** All schedules, and the chosen one with its rounds and a form that changes it. */
export function Schedules({ tasks, now, ends, chosen, can }) {
  const repeated = tasks.filter(isRepeated);
  const columns = useMemo(() => [
    { name: "table", title: "Table" },
    { name: "when", title: "Rounds begin", of: when },
    { name: "next_at", title: "Next round", cell: (task) => (task.round_runs ? `runs ${timing(task, now)}`
      : task.paused ? "paused" : time(task.next_at)) },
    { name: "ended_rounds", title: "Rounds", right: true, cell: (task) => `${number(task.ended_rounds)} of ${
      task.rounds ? number(task.rounds) : "any number"}` },
    { name: "window", title: "Window", cell: (task) => text(task.window) },
    { name: "follows", title: "Follows", cell: (task) => text(task.follows) },
    { name: "failed", title: "Failed", right: true },
    { name: "id", title: "Task" },
  ], [now]);
  const task = repeated.find((one) => one.id === chosen.schedule);
  if (!repeated.length) return null;
  return html`<${Panel} title="Schedules" wide>
    <${Table} id="schedules" label="Repeated tasks" columns=${columns} rows=${repeated}
      pick=${(row) => visit({ schedule: row.id === chosen.schedule ? null : row.id })}
      picked=${(row) => row.id === chosen.schedule} />
    ${task ? html`<${Rounds} key=${task.id} task=${task} ends=${ends} /> <${Change} can=${can} task=${task} />` : null}
  </${Panel}>`;
}

const ROUNDS = [
  { name: "round", title: "Round", right: true },
  { name: "state", title: "State" },
  { name: "done", title: "Succeeded", right: true },
  { name: "failed", title: "Failed", right: true },
  { name: "started", title: "Began", cell: (round) => time(round.started) },
  { name: "took", title: "Took", right: true, of: (round) => round.finished - round.started,
    cell: (round) => span(round.finished - round.started) },
  { name: "error", title: "Error" },
];

/** The last rounds of a task. A round is chosen to see its failures. */
function Rounds({ task, ends }) {
  const [db, schema, table, ...more] = task.table.split(".");
  // Names may have dots.
  const wanted = more.length ? {} : { db, schema, table };
  const { answer, wrong } = useAsk(() => get("compaction/history", wanted), [task.id, ends]);
  const rounds = (answer?.items || []).filter((round) => round.id === task.id && round.kind === "round");
  return html`<h2>Rounds of ${task.table}</h2>
    ${wrong ? html`<p class="hint">${wrong}</p>` : html`<${Table} id="rounds" label="Rounds of the task"
      columns=${ROUNDS} rows=${rounds} none="no round has ended" pick=${(round) => visit({ task: round.id,
        round: round.round })} />`}
    ${answer?.next ? html`<p class="hint">The history has older rounds.</p>` : null}`;
}
