// The overview: what is up, who leads, and how much is going on.
import { html, useMemo } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { Chart } from "../lib/chart.js";
import { link } from "../lib/address.js";
import { useAsk, useLive } from "../lib/live.js";
import { Events, Figure, NoText, Page, Panel, Reading } from "../lib/parts.js";
import { clock, number, size, span, text } from "../lib/format.js";

const KINDS = { show: ["Shows", "show"], realm: ["Realms", "realm"], pool: ["Pools", "pool"],
  book: ["Accounts", "accounts"] };
/** Keys of a kind that the overview lists. */
const LISTED = 12;
/** Counters that say that something is wrong if they grow. */
const FAULTS = ["allot_internal_errors", "allot_outbox_failures", "allot_steps_ahead"];

/** Fields of events that the feed shows. */
const SHOWN = ["user", "order", "cmu", "e164", "number", "switch", "account", "instance", "state", "reason"];

/** The page of a key. */
function pageOf(keys, key) {
  const found = keys.find((entry) => entry.key === key);
  return found ? link(KINDS[found.kind][1], { key }) : "/";
}

/** The mass-failure guard; a user of Redis without the right to read it does not know. */
function guard({ guard: held, guard_known: known }) {
  if (!known) return { value: "unknown", tone: "warn", hint: "may not be read" };
  return held ? { value: "holds", tone: "bad", hint: `since ${clock(Number(held.since))}` }
    : { value: "open", tone: "good" };
}

const MINUTE = 60_000;

/** What the module has done in the last day, by the minute, which the console keeps. */
function Day() {
  const { answer, wrong } = useAsk(() => get("history"), [], MINUTE);
  const line = (name, colour, dash) => ({ name, values: answer[name], colour, dash });
  return html`<${Panel} title="The last 24 hours, by the minute" wide>
    ${answer?.calls.length > 1 ? html`<${Chart} label="Counts by the minute" height=${180} gap=${2 * MINUTE} stepped
      at=${answer.calls.map((_, minute) => answer.from + minute * MINUTE)}
      lines=${[line("holds", "--blue"), line("calls", "--teal", [8, 3]), line("recoveries", "--violet", [2, 3]),
        line("refusals", "--pink", [6, 3, 1, 3])]} />`
      : html`<p class="hint">${wrong || "The console reads the counters once a minute; two minutes make a line."}</p>`}
  </${Panel}>`;
}

export function Overview({ keys, more }) {
  const { state, trouble } = useLive("overview");
  // Drawn when it changes, and not each second.
  const day = useMemo(() => html`<${Day} />`, []);
  if (!state) return html`<${Reading} trouble=${trouble} what="Redis" />`;
  const { info, points } = state;
  const faults = FAULTS.filter((name) => Number(info[name]) > 0);
  const [grants, refusals, expiries] = points.at(-1)?.value || [];
  const rate = (value) => (value === undefined || value === null ? "–" : value >= 10 ? number(Math.round(value))
    : value.toFixed(1));
  return html`<${Page} trouble=${trouble} title="Overview">
    <div class="grid">
      <${Panel} title="Redis" extra=${html`<span class="hint">${state.server}</span>`}>
        <div class="figures">
          <${Figure} name="role" value=${info.role || "–"} tone=${info.role === "master" ? "good" : "warn"} />
          <${Figure} name="replicas" value=${number(info.connected_slaves)} />
          <${Figure} name="memory" value=${size(Number(info.used_memory || 0))}
            hint=${Number(info.maxmemory) ? `of ${size(Number(info.maxmemory))}` : null} />
          <${Figure} name="commands a second" value=${number(info.instantaneous_ops_per_sec)} />
          <${Figure} name="clients" value=${number(info.connected_clients)} />
          <${Figure} name="up for" value=${span(Number(info.uptime_in_seconds || 0) * 1000)}
            hint=${info.valkey_version ? `Valkey ${info.valkey_version}` : `Redis ${info.redis_version}`} />
        </div>
      </${Panel}>
      <${Panel} title="Coordination">
        <div class="figures">
          <${Figure} name="ZooKeeper" value=${state.zookeeper === null ? "none" : state.zookeeper ? "connected"
            : "away"} tone=${state.zookeeper === null ? "" : state.zookeeper ? "good" : "bad"} />
          ${["scheduler", "accounts", "compaction"].map((name) => {
            const leader = state.leaders[name];
            return html`<${Figure} name=${`leads: ${name}`} value=${leader?.name || "–"}
              hint=${leader ? `term ${text(leader.term)}` : null} />`;
          })}
          <${Figure} name="mass-failure guard" ...${guard(state)} />
          <${Figure} name="waiting for recovery" value=${number(info.allot_conf_pending)}
            tone=${Number(info.allot_conf_pending) ? "warn" : ""} />
        </div>
      </${Panel}>
      <${Panel} title="Now">
        <div class="figures">
          <${Figure} name="grants a second" value=${rate(grants)} />
          <${Figure} name="refusals a second" value=${rate(refusals)} />
          <${Figure} name="expiries a second" value=${rate(expiries)} />
          <${Figure} name="live holds" value=${number(info.allot_seat_live_holds)} />
          <${Figure} name="live calls" value=${number(info.allot_numpool_live_leases)} />
          <${Figure} name="live logins" value=${number(info.allot_account_live_logins)} />
        </div>
        ${faults.map((name) => html`<p class="trouble">${name} is ${info[name]}: the server's log has the reason</p>`)}
      </${Panel}>
      <${Panel} title="Grants, refusals and expiries a second" wide>
        <${Chart} label="Rates" height=${230}
          at=${points.map((point) => point.at)}
          lines=${[
            { name: "grants", values: points.map((point) => point.value[0]), colour: "--blue", fill: true },
            { name: "refusals", values: points.map((point) => point.value[1]), colour: "--pink", dash: [7, 3] },
            { name: "expiries", values: points.map((point) => point.value[2]), colour: "--amber", dash: [2, 3] },
          ]} />
      </${Panel}>
      ${day}
      ${state.events.length ? html`<${Panel} title="Events" wide>
        <${Events} events=${state.events} about=${(event) => html`
        <a class="of" href=${pageOf(keys, event.key)}>${event.key}</a>
        <span class="who">${Object.entries(event.fields).filter(([name]) => SHOWN.includes(name)).map(([name,
          value]) => `${name} ${value}`).join(", ")}</span>`} /></${Panel}>` : null}
      <${Panel} title="Keys" wide><div class="keys">
        ${Object.entries(KINDS).map(([kind, [title, page]]) => {
          const found = keys.filter((entry) => entry.kind === kind);
          return html`<div><h3>${title} ${number(found.length)}${more.includes(kind) ? " and more" : ""}</h3>
            ${found.length ? html`<ul class="plan">${found.slice(0,
              LISTED).map((entry) => html`<li>${entry.is_text
              ? html`<a href=${link(page, { key: entry.key })}>${entry.key}</a>` : html`<${NoText} of=${entry.key} />`}
              </li>`)}</ul>` : html`<p class="hint">none</p>`}
            ${found.length > LISTED ? html`<p class="hint"><a href=${link(page)}>
              ${number(found.length - LISTED)} more</a></p>` : null}</div>`;
        })}
      </div></${Panel}>
      <${Panel} title="Counters since the start of the server" wide>
        <div class="figures">
          ${Object.entries(info).filter(([name, value]) => name.startsWith("allot_")
            && Number(value) > 0).map(([name, value]) => html`
            <${Figure} name=${name.slice(6).replaceAll("_", " ")} value=${number(value)} />`)}
        </div>
      </${Panel}>
    </div></${Page}>`;
}
