// A realm: units as tiles with their leases, conferences on them, what waits for recovery, and one conference over
// time.
import { html, useState } from "../lib/ui.js";
import { command, get } from "../lib/api.js";
import { visit } from "../lib/address.js";
import { Act, Badge, Events, LivePage, Panel } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { useAsk, useTick } from "../lib/live.js";
import { clock, number, span, text, time } from "../lib/format.js";

const TONES = { up: "good", draining: "warn", suspect: "warn", unreachable: "bad", down: "bad", open: "sold",
  lost: "bad", creating: "warn", waiting: "warn", pending: "held", scheduled: "plain", ended: "plain" };
/** Interval at which the plan for the death of a unit is read, in milliseconds. */
const PLAN_INTERVAL = 5000;
/** Conferences that a tile draws; more are a number. */
const DRAWN = 80;

export function RealmPage({ can, ...page }) {
  const none = "There is no realm in Redis yet. The first unit or scheduler creates it.";
  return html`<${LivePage} ...${page} kind="realm" title="Realm" label="Realm" none=${none}
    bar=${({ state }) => html`<${Totals} stat=${state.stat} />`}>
    ${(key, live) => html`<${Realm} name=${key} live=${live} chosen=${page.chosen} can=${can} />`}</${LivePage}>`;
}

function Realm({ name: key, live: { state, at, losses }, chosen, can }) {
  useTick(250);
  const now = state.now + performance.now() - at;
  const pending = state.conferences.filter((conference) => conference.state === "pending");
  return html`
    ${state.guard ? html`<div class="trouble" role="alert">The mass-failure guard holds: ${text(state.guard.units)}.
      <${Act} can=${can} path="realm/lift-guard"
        ask="Lift the mass-failure guard? Units that are silent are then declared down."
        body=${() => ({ key })}>Lift it</${Act}></div>` : null}
    <div class="units" role="list" aria-label="Units">
      ${state.units.map((unit) => html`<${Unit} key=${unit.cmu} unit=${unit} now=${now}
        picked=${chosen.cmu === unit.cmu} loss=${losses[unit.cmu]}
        conferences=${state.conferences.filter((conference) => conference.cmu === unit.cmu
          && conference.state !== "ended" && conference.state !== "pending")} />`)}
    </div>
    ${pending.length ? html`<div class="pending-box" role="status"><b>${number(pending.length)} wait for recovery</b>
      <div class="calls">${pending.slice(0, DRAWN).map((conference) => html`<${Call} key=${conference.e164}
        conference=${conference} />`)}</div></div>` : null}
    <div class="realm-lower">
      <div class="stacked">
      ${chosen.cmu ? html`<${UnitPanel} key=${`${key} ${chosen.cmu}`} name=${key}
        unit=${state.units.find((unit) => unit.cmu === chosen.cmu)} cmu=${chosen.cmu} can=${can} />`
        : html`<${Panel} title="Unit">
        <p class="hint">Choose a unit to see where its conferences would go if it died now.</p></${Panel}>`}
      ${chosen.conference ? html`<${ConferencePanel} key=${`${key} ${chosen.conference}`} name=${key}
        number=${chosen.conference} can=${can} now=${now} units=${state.units}
        mark=${JSON.stringify(state.conferences.find((one) => one.e164 === chosen.conference))} />`
          : html`<${Panel} title="Conference"><p class="hint">Choose a conference to see its assignments over time.</p>
          </${Panel}>`}
      </div>
      <${Panel} title="Events">${state.events.length ? html`<${Events} events=${state.events.slice(0, 12)}
        about=${({ fields }) => html`
        <span class="who">${[fields.e164, fields.cmu && host(fields.cmu)].filter(Boolean).join(" on ")}</span>`} />`
          : html`<p class="hint">none yet</p>`}</${Panel}>
      <${Conferences} state=${state} chosen=${chosen} />
      <${Hosts} name=${key} state=${state} can=${can} />
    </div>`;
}

function Totals({ stat }) {
  const names = ["open", "lost", "creating", "waiting", "pending", "scheduled"];
  const counts = names.filter((name) => stat[name] !== undefined);
  // Nothing lost is no reason for red.
  return html`<div class="tally">${counts.map((name) => html`<${Badge} tone=${stat[name] ? TONES[name] : "none"}>
    ${number(stat[name])} ${name}</${Badge}>`)}</div>`;
}

function Call({ conference }) {
  return html`<button type="button" class=${`call ${conference.state}`}
    title=${`${conference.e164} ${conference.state}`}
    aria-label=${`conference ${conference.e164}, ${conference.state}`}
    onClick=${(event) => { event.stopPropagation(); visit({ conference: conference.e164 }); }}></button>`;
}

/** The part of a unit's identity that people know; the rest tells its runs apart. */
const host = (cmu) => /^(.+):\d+:\d+$/.exec(cmu)?.[1] ?? cmu;

/** A unit: a lease that shrinks until the next heartbeat. */
function Unit({ unit, conferences, now, picked, loss }) {
  const rest = Math.max(0, (unit.lease_ends || 0) - now);
  const share = unit.state === "down" ? 0 : Math.min(1, rest / (unit.lease || 1));
  const low = share < 0.4 ? (share <= 0 ? "over" : "low") : "";
  return html`<div class=${`unit ${unit.state}${picked ? " picked" : ""}`} role="listitem">
    <div class="head"><button type="button" class="quiet name" aria-pressed=${picked}
      onClick=${() => visit({ cmu: picked ? null : unit.cmu })}>${host(unit.cmu)}<small>
      ${unit.cmu.slice(host(unit.cmu).length)}</small></button>
      <${Badge} tone=${TONES[unit.state] || "plain"}>${unit.state}</${Badge}></div>
    <div class="room"><b>${number(unit.used)}</b> <span class="hint">of ${number(unit.capacity)} used${unit.zone
      ? `, zone ${unit.zone}` : ""}</span></div>
    <div class=${`lease ${low}`} role="meter" aria-label="Lease" aria-valuemin="0" aria-valuemax=${unit.lease}
      aria-valuenow=${Math.round(rest)}><span style=${{ width: `${share * 100}%` }}></span></div>
    <div class="hint">${unit.state === "down" ? "declared down" : rest > 0
      ? `lease ends in ${(rest / 1000).toFixed(1)} s` : "its lease has expired"}</div>
    ${unit.state === "down" ? null : html`<${Cover} loss=${loss} />`}
    <${Faults} unit=${unit} now=${now} />
    <div class="calls">${conferences.slice(0, DRAWN).map((conference) => html`<${Call} key=${conference.e164}
      conference=${conference} />`)}
      ${conferences.length > DRAWN ? html`<span class="hint">+${number(conferences.length - DRAWN)}</span>` : null}
        </div>
  </div>`;
}

/** Whether the other units have room for the conferences of a unit, if it died now. */
function Cover({ loss }) {
  if (!loss?.conferences) return null;
  const words = `${number(loss.no_room)} of ${number(loss.conferences)} find no room if it dies`;
  return html`<div class="cover">${loss.no_room ? html`<${Badge} tone="warn">${words}</${Badge}>`
    : html`<span class="hint">${words}</span>`}</div>`;
}

/** Creations that fail on a unit, and another unit that wants its host. */
function Faults({ unit, now }) {
  const seconds = Math.ceil((unit.backoff_until - now) / 1000);
  const pause = seconds > 0 ? `, nothing new for ${number(seconds)} s` : "";
  const faults = [
    unit.failures ? `${number(unit.failures)} creations failed in a row${pause}` : "",
    unit.conflict ? `machine ${text(unit.conflict)} has a unit of this host, which is refused` : "",
  ].filter((fault) => fault);
  return html`${faults.map((fault) => html`<div class="cover"><${Badge} tone="warn">${fault}</${Badge}></div>`)}`;
}

/** A unit with the plan for its death. */
function UnitPanel({ name, unit, cmu, can }) {
  const { answer: plan, wrong } = useAsk(() => get("realm/plan", { key: name, down: cmu }), [name, cmu],
    PLAN_INTERVAL);
  const targets = (plan || []).map(({ cmu: to, why, count }) => [to ? host(to) : `nowhere: ${text(why)}`, count]);
  return html`<${Panel} title=${`Unit ${host(cmu)}`} extra=${html`<button type="button" class="quiet"
    onClick=${() => visit({ cmu: null })}>Close</button>`}>
    ${unit ? html`<p class="hint">joined ${time(unit.joined)}, ${number(unit.conferences)} conferences</p>`
      : html`<p class="hint">this unit is not on record any more</p>`}
    <h2 style=${{ margin: "12px 0 6px" }}>If this unit died now</h2>
    ${wrong ? html`<p class="hint">${wrong}</p>` : targets.length
      ? html`<ul class="plan">${targets.map(([to, count]) => html`<li><span>${to}</span><b>${number(count)}</b></li>`)}
      </ul>` : html`<p class="hint">nothing would move</p>`}
    ${unit && can ? html`<div class="acts">
      <${Act} can=${can}
        ask=${`Drain ${cmu}? It gets no new conference; its ${number(unit.conferences)} stay until they end.`}
        undo=${() => ({ ask: `Undrain ${cmu}?`, words: ["CMU.DRAIN", name, cmu, "OFF"] })}
        words=${() => ["CMU.DRAIN", name, cmu]}>Drain</${Act}>
      <${Act} can=${can} ask=${`Drain ${cmu}, and move its ${number(unit.conferences)} conferences to other units?`}
        words=${() => ["CMU.DRAIN", name, cmu, "MOVE"]}>Drain and move</${Act}>
      <${Act} can=${can} ask=${`Undrain ${cmu}? It gets new conferences then.`}
        words=${() => ["CMU.DRAIN", name, cmu, "OFF"]}>Undrain</${Act}></div>` : null}
  </${Panel}>`;
}

/** The hosts that are drained, with or without a unit; an operator drains others before their unit joins. */
function Hosts({ name, state: { stat, units }, can }) {
  const { drained } = stat;
  const unitOf = (wanted) => units.find((unit) => host(unit.cmu) === wanted);
  const about = (wanted) => {
    const unit = unitOf(wanted);
    return unit ? `its ${number(unit.conferences)} conferences stay until they end` : "it has no unit now";
  };
  const drain = (wanted, off) => /** @type {import("../lib/parts.js").Words} */ (["CMU.DRAIN", name, "HOST", wanted,
    ...(off ? ["OFF"] : [])]);
  return html`<${Panel} title="Drained hosts" wide extra=${drained.length
    ? html`<span class="hint">${number(drained.length)}</span>` : null}>
    ${drained.length ? html`<ul class="plan">${drained.map((one) => html`<li key=${one}><span>${one}
      <span class="hint">${unitOf(one) ? "" : "no unit now"}</span></span>
      <${Act} can=${can} ask=${`Undrain the host ${one}? Its unit gets new conferences then.`}
        undo=${() => ({ ask: `Drain the host ${one}?`, words: drain(one, false) })}
        words=${() => drain(one, true)}>Undrain</${Act}></li>`)}</ul>`
      : html`<p class="hint">No host is drained.</p>`}
    ${can ? html`<div class="acts"><${Act} can=${can} fields=${[{ title: "Host" }]}
      check=${(typed) => (typed ? "" : "the host is missing")}
      ask=${(typed) => `Drain ${typed ? `the host ${typed}: ${about(typed)}` : "a host"}? Each unit that runs on it `
        + "gets no new conference, also after restarts."}
      undo=${({ host: one }) => ({ ask: `Undrain the host ${one}?`, words: drain(one, true) })}
      words=${(typed) => drain(typed, false)}>Drain a host</${Act}></div>` : null}
  </${Panel}>`;
}

/** One conference: its record, and its assignments as a timeline. */
function ConferencePanel({ name, number: e164, can, now, units, mark }) {
  const [to, setTo] = useState("");
  const ask = async () => {
    const [conference, history] = await Promise.all([command("CONF.INFO", name, e164),
      command("CONF.HISTORY", name, e164)]);
    return { conference, history };
  };
  const { answer: found, wrong } = useAsk(ask, [name, e164, mark]);
  const close = html`<button type="button" class="quiet" onClick=${() => visit({ conference: null })}>Close</button>`;
  if (!found) return html`<${Panel} title=${`Conference ${e164}`} extra=${close}><p class="hint">${wrong || "…"}</p>
    </${Panel}>`;
  const { conference, history } = found;
  return html`<${Panel} title=${`Conference ${e164}`} extra=${close}>
    <div class="tally"><${Badge} tone=${TONES[conference.state] || "plain"}>${conference.state}
      </${Badge}> <span class="hint">epoch ${text(conference.epoch)} on ${conference.cmu ? host(conference.cmu)
      : "no unit"}, ends ${time(conference.end)}</span></div>
    <${Timeline} history=${history} now=${now} />
    ${can && conference.state !== "ended" ? html`<div class="acts">
      <select aria-label="Target unit" value=${to} onChange=${(event) => setTo(event.target.value)}>
        <option value="">the best unit</option>
        ${units.filter((unit) => unit.state === "up" && unit.cmu !== conference.cmu).map((unit) => html`<option
          value=${unit.cmu}>${host(unit.cmu)}</option>`)}</select>
      <${Act} can=${can} ask=${`Move the conference ${e164} to ${to || "the best unit"}?`}
        words=${() => ["CONF.MOVE", name, e164, ...(to ? ["TO", to] : [])]}>Move</${Act}>
      <${Act} can=${can} fields=${[{ title: "Minutes from now", value: 60 }]}
        check=${(typed) => (Number(typed) > 0 ? "" : "a number of minutes is missing")}
        ask=${(typed) => `Let the conference ${e164} end at ${Number(typed) > 0 ? time(now + typed * 60000)
          : "another time"}, and not at ${time(conference.end)}?`}
        words=${(typed) => ["CONF.EXTEND", name, e164, "END", Math.round(now + typed * 60000)]}>Change end</${Act}>
      <${Act} can=${can} tone="danger" ask=${`End the conference ${e164} on ${conference.cmu ? host(conference.cmu)
        : "no unit"}? Its people are cut off.`} words=${() => ["CONF.RELEASE", name, e164]}>End</${Act}></div>` : null}
  </${Panel}>`;
}

/** Assignments as bars, one lane for each unit. */
function Timeline({ history, now }) {
  if (!history.length) return html`<p class="hint">It has no assignments.</p>`;
  const from = Math.min(...history.map((entry) => Number(entry.from)));
  const width = Math.max(1000, now - from);
  const lanes = [...new Set(history.map((entry) => entry.cmu))];
  return html`<div class="timeline" style=${{ marginTop: "12px" }} role="list" aria-label="Assignments">
    ${lanes.map((cmu) => html`<div class="lane"><span>${host(cmu)}</span><div class="track">
      ${history.filter((entry) => entry.cmu === cmu).map((entry) => {
        const end = Number(entry.to) || now;
        const lost = entry.how && !/mov|end|release/.test(entry.how);
        const words = `epoch ${entry.epoch}: ${clock(entry.from)} to ${entry.to ? clock(entry.to) : "now"}${entry.how
          ? `, ${entry.how}` : ""}`;
        return html`<div class=${`bar-of${lost ? " lost" : ""}`} role="listitem" title=${words} aria-label=${words}
          style=${{ left: `${((entry.from - from) / width) * 100}%`,
            width: `${((end - entry.from) / width) * 100}%` }}></div>`;
      })}</div></div>`)}
    <div class="axis"><span>${clock(from)}</span><span>${span(width)}</span><span>now</span></div>
  </div>`;
}

const COLUMNS = [
  { name: "e164", title: "Number" },
  { name: "state", title: "State", cell: (row) => html`<${Badge} tone=${TONES[row.state] || "plain"}>${row.state}
    </${Badge}>` },
  { name: "cmu", title: "Unit", cell: (row) => (row.cmu ? host(row.cmu) : "–") },
  { name: "epoch", title: "Epoch", right: true },
  { name: "opened", title: "Opened", cell: (row) => time(row.opened) },
  { name: "end", title: "Ends", cell: (row) => time(row.end) },
  { name: "cause", title: "Cause" },
];

function Conferences({ state, chosen }) {
  return html`<${Panel} title="Conferences" wide extra=${state.more
    ? html`<span class="hint">the first ${number(state.conferences.length)}</span>` : null}>
    <${Table} id="conferences" label="Conferences" columns=${COLUMNS} rows=${state.conferences} none="no conferences"
      pick=${(row) => visit({ conference: row.e164 })} picked=${(row) => row.e164 === chosen.conference} />
  </${Panel}>`;
}

