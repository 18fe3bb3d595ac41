// A pool of numbers: what they do now and did before, calls by switch, and what an operator does with them.
import { html, useMemo } from "../lib/ui.js";
import { Act, Badge, Figure, LivePage, Panel } from "../lib/parts.js";
import { Chart } from "../lib/chart.js";
import { Table } from "../lib/table.js";
import { counted, fields, number, percent, span, text } from "../lib/format.js";

const PARTS = [["free", "free", "--teal"], ["busy", "in a call", "--blue"], ["cooling", "cooling down", "--violet"],
  ["barred", "out of service or at the cap", "--amber"], ["absent", "not registered", "--strong-line"]];

export function PoolPage({ can, ...page }) {
  const none = html`There is no pool of numbers in Redis yet. <code>allot pool load</code> fills one.`;
  return html`<${LivePage} ...${page} kind="pool" title="Pool" label="Pool" none=${none}>
    ${(key, { state, numbers, switches }) => html`<${Pool} name=${key} state=${state} numbers=${numbers}
      switches=${switches} can=${can} />`}
      </${LivePage}>`;
}

function Pool({ name: key, state, numbers, switches, can }) {
  const columns = useMemo(() => [
    { name: "number", title: "Number" },
    { name: "token", title: "Lease", of: (row) => row.token ?? row.lease },
    { name: "call_switch", title: "Switch" },
    { name: "peer", title: "Peer" },
    { name: "age", title: "Age", right: true, cell: (row) => span(row.age) },
    { name: "until", title: "Ends in", right: true, cell: (row) => (row.until ? span(row.until - row.now) : "–") },
    ...(can ? [{ name: "act", title: "Action", of: () => "",
      cell: (row) => html`<${Act} can=${can} ask=${`End the call of ${row.number}?`}
      words=${() => ["NUMPOOL.HANGUP", key, row.number, "LEASE", row.token ?? row.lease]}>Hang up</${Act}>` }] : []),
  ], [key, can]);
  const { info, now } = state;
  const counts = state.points.at(-1).value;
  const leases = state.leases.map((lease) => ({ ...lease, now, age: now - lease.since }));
  const busiest = bySwitch(switches.items, leases, state.more);
  return html`
    <div class="grid">
      <${Panel} title="Numbers" wide>
        <div class="stack" role="img" aria-label=${PARTS.map(([name,
          title]) => `${title} ${counts[name]}`).join(", ")}>
          ${PARTS.map(([name, , colour]) => html`<span style=${{ width: `${(100 * counts[name]) / Math.max(1,
            info.total)}%`, background: `var(${colour})` }}></span>`)}
        </div>
        ${info.waiting ? html`<p class="notice" role="status">
          ${number(info.waiting)} ${info.waiting === 1 ? "call waits" : "calls wait"} for a number.</p>` : null}
        <div class="key">${PARTS.map(([name, title, colour]) => html`<span>
          <i style=${{ background: `var(${colour})` }}></i>${title} <b>${number(counts[name])}</b> <span class="hint">
          ${percent(counts[name], info.total)}</span></span>`)}</div>
      </${Panel}>
      <${Panel} title="Over time">
        <${Chart} label="Numbers by state" at=${state.points.map((one) => one.at)}
          lines=${[
            { name: "free", values: state.points.map((one) => one.value.free), colour: "--teal", fill: true },
            { name: "in a call", values: state.points.map((one) => one.value.busy), colour: "--blue", dash: [8, 3] },
            { name: "cooling", values: state.points.map((one) => one.value.cooling), colour: "--violet",
              dash: [2, 3] },
            { name: "calls waiting", values: state.points.map((one) => one.value.waiting), colour: "--amber",
              dash: [6, 3, 1, 3] },
          ]} />
      </${Panel}>
      <${Panel} title="Settings">
        <div class="figures">
          <${Figure} name="numbers" value=${number(info.total)} />
          <${Figure} name="picks by" value=${text(info.pick)} />
          <${Figure} name="lease" value=${Number(info.lease) ? span(info.lease) : "no end"} />
          <${Figure} name="cool-down" value=${Number(info.cooldown) ? span(info.cooldown) : "none"} />
          <${Figure} name="registration" value=${Number(info.regttl) ? span(info.regttl) : "no end"} />
          <${Figure} name="leave after their call" value=${number(info.draining)} />
        </div>
      </${Panel}>
      <${Panel} title="Calls that get no number">
        <div class="figures">
          <${Figure} name="calls waiting" value=${number(info.waiting)} tone=${info.waiting ? "warn" : ""} />
          <${Figure} name="numbers at their cap" value=${number(info.limited)} tone=${info.limited ? "warn" : ""} />
          <${Figure} name="out of service" value=${number(info.suspended)} tone=${info.suspended ? "warn" : ""} />
          <${Figure} name="of them in quarantine" value=${number(info.quarantined)}
            tone=${info.quarantined ? "warn" : ""} />
        </div>
        ${info.causes.length ? html`<ul class="plan">${info.causes.map(fields).map((cause) => html`<li><span>
          ${cause.cause}</span><span><b>${number(cause.count)}</b> <span class="hint">
          ${cause.cooldown === null ? "no rule" : `${cause.after} of them: quarantine for ${span(cause.cooldown)}`}
          </span></span></li>`)}</ul>` : null}
        ${info.rate ? html`<p class="hint">The pool begins at most ${number(info.rate)} calls in
          ${" "}${span(info.rate_window)}.</p>` : null}
        ${info.caps.map(fields).map((cap) => html`<p
          class="hint">A number begins at most ${number(cap.count)} calls in
          ${" "}${cap.window === null ? "a calendar day" : span(cap.window)}.</p>`)}
      </${Panel}>
      <${Panel} title="Switches" wide extra=${switches.more ? html`<span class="hint">
        the first ${number(switches.items.length)}</span>` : null}>
        <ul class="plan">${busiest.map(({ name, calls, numbers, oldest }) => html`<li><span>
          ${name}</span><span>${numbers === null ? null : html`${counted(numbers, "number")},`}
          <b>${counted(calls, "call")}</b> ${oldest ? html`<span class="hint">oldest ${span(oldest)}</span>` : null}
          ${can && name !== "none" && calls ? html` <${Act} can=${can} tone="danger"
            ask=${`End all calls of switch ${name}?`}
            words=${() => ["NUMPOOL.RECONCILE", key, "SWITCH", name]}>End all</${Act}>` : null}
          ${can && name !== "none" && numbers !== 0 ? html` <${Act} can=${can} tone="danger"
            ask=${`Unregister all numbers of switch ${name}?`}
              words=${() => ["NUMPOOL.UNREG", key, "SWITCH", name]}>Unregister</${Act}>` : null}</span></li>`)}
          ${busiest.length ? null
            : html`<li class="hint">no switch has registered a number or carries a call</li>`}</ul>
      </${Panel}>
      <${Idle} name=${key} can=${can} numbers=${numbers} total=${info.total} now=${now} />
      <${Panel} title="Calls" wide extra=${state.more ? html`<span class="hint">the first ${number(leases.length)}
        </span>` : null}>
        <${Table} id="calls" label="Live calls" columns=${columns} rows=${leases} none="no live calls" />
      </${Panel}>
    </div>`;
}

const REASONS = { "cool-down": ["cool-down", "plain"], quarantine: ["quarantine", "bad"],
  "out-of-service": ["out of service", "bad"], cap: ["at its cap", "warn"] };

const FREE = [
  { name: "number", title: "Number" },
  { name: "waits", title: "Idle for", right: true, cell: (row) => span(row.waits) },
  { name: "uses", title: "Calls", right: true, cell: (row) => number(row.uses) },
  { name: "switch", title: "Switch" },
];

const RESTING = [
  { name: "number", title: "Number" },
  { name: "why", title: "Why", of: (row) => REASONS[row.why][0],
    cell: (row) => html`<${Badge} tone=${REASONS[row.why][1]}>${REASONS[row.why][0]}</${Badge}>` },
  { name: "cause", title: "Cause" },
  { name: "rest", title: "Free in", right: true,
    cell: (row) => (row.until === null ? "when resumed" : span(row.rest)) },
];

/** Numbers without a call: those that can be called, and those that rest. */
function Idle({ name: key, can, numbers, total, now }) {
  const [freeColumns, restingColumns] = useMemo(() => {
    const action = (cell) => (can ? [{ name: "act", title: "Action", of: () => "", cell }] : []);
    const suspend = (row) => html`<${Act} can=${can} ask=${`Take ${row.number} out of service?`}
      undo=${() => ({ ask: `Put ${row.number} into service again?`, words: ["NUMPOOL.RESUME", key, row.number] })}
      words=${() => ["NUMPOOL.SUSPEND", key, row.number]}>Suspend</${Act}>`;
    const resume = (row) => (row.why === "quarantine" || row.why === "out-of-service" ? html`<${Act} can=${can}
      ask=${`Put ${row.number} into service again?`}
      words=${() => ["NUMPOOL.RESUME", key, row.number]}>Resume</${Act}>`
      : "");
    return [[...FREE, ...action(suspend)], [...RESTING, ...action(resume)]];
  }, [key, can]);
  if (!numbers) return null;
  const { free, resting, more, listed, examined } = numbers;
  // Either list is cut, or the pool has numbers that were not examined.
  const cut = (list) => (more ? html`<span class="hint">${list.length === listed ? `the first ${number(listed)}`
    : total > examined ? `of the first ${number(examined)} numbers` : ""}</span>` : null);
  const queue = free.map((row) => ({ ...row, waits: now - row.since }));
  const rests = resting.map((row) => ({ ...row, rest: row.until === null ? Infinity : row.until - now }));
  return html`
    <${Panel} title="Free numbers" half extra=${cut(free)}>
      <${Table} id="free" label="Numbers that can be called" columns=${freeColumns} rows=${queue}
        none="no number is free" />
        </${Panel}>
    <${Panel} title="Resting numbers" half extra=${cut(resting)}>
      <${Table} id="resting" label="Numbers that rest" columns=${restingColumns} rows=${rests}
        none="no number rests" />
        </${Panel}>`;
}

/**
 * Switches with their numbers, their calls and the age of the oldest call, the busiest first. Only the list of
 * switches has those without a call. It is older than the calls, which are counted if all are there.
 * @param {any[]} switches @param {any[]} leases @param {boolean} more whether there are further calls
 */
function bySwitch(switches, leases, more) {
  const found = new Map(switches.map(({ switch: name, numbers, calls }) => [name,
    { name, numbers, calls: more ? calls : 0, oldest: 0 }]));
  for (const lease of leases) {
    const name = lease.call_switch ?? "none";
    const one = found.get(name) || { name, numbers: null, calls: 0, oldest: 0 };
    const counts = !more || one.numbers === null;
    found.set(name, { ...one, calls: one.calls + (counts ? 1 : 0), oldest: Math.max(one.oldest, lease.age) });
  }
  return [...found.values()].sort((a, b) => b.calls - a.calls);
}
