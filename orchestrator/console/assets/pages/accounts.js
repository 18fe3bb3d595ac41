// A book of accounts: departments, modules and instances with their use, and the moves that a rebalance would make.
import { html, useMemo } from "../lib/ui.js";
import { get } from "../lib/api.js";
import { visit } from "../lib/address.js";
import { Act, Badge, Figure, LivePage, Panel } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { useAsk } from "../lib/live.js";
import { AccountPanel } from "./account.js";
import { ImportPanel } from "./import.js";
import { fields, number, percent, text, time } from "../lib/format.js";

const TONES = { assigned: "sold", free: "free", revoking: "warn", frozen: "bad", active: "good", standby: "plain",
  away: "bad", leaving: "warn" };

export function AccountsPage({ can, ...page }) {
  const none = html`There is no book of accounts in Redis yet. <code>allot book apply</code> creates one.`;
  return html`<${LivePage} ...${page} kind="book" title="Accounts" label="Book" none=${none}>
    ${(key, { state }) => html`<${Book} key=${key} name=${key} state=${state} chosen=${page.chosen}
      can=${can} />`}</${LivePage}>`;
}

function Book({ name, state, chosen, can }) {
  const columns = useMemo(() => accountColumns(name, can), [name, can]);
  const transit = state.accounts.filter((account) => account.state === "revoking");
  const picked = state.accounts.find((account) => account.account === chosen.account);
  return html`
    <div class="grid">
      <${Panel} title="Book" wide><div class="figures">
        ${["accounts", "assigned", "free", "revoking", "frozen", "logins", "modules", "instances"].map((name) => html`
          <${Figure} name=${name} value=${number(state.book[name])}
            tone=${name === "frozen" && state.book[name] ? "warn" : ""} />`)}
        <${Figure} name="month ends" value=${time(state.book.month_end).slice(0, 10).replaceAll("-", "\u2011")} />
        <${Figure} name="leader" value=${text(state.book.leader)} hint=${`term ${text(state.book.term)}`} />
      </div></${Panel}>
      <${Panel} title="Departments, modules, instances" wide><${Tree} state=${state} /></${Panel}>
      <${Proposed} name=${name} can=${can} />
      <${Panel} title="In transit">${transit.length ? html`<ul class="plan">
        ${transit.map((account) => html`<li><span>${account.account}</span>
        <span class="hint">leaves ${text(account.instance)}</span></li>`)}</ul>`
        : html`<p class="hint">No account is in transit.</p>`}</${Panel}>
      <${Panel} title="Accounts" wide extra=${state.more ? html`<span
        class="hint">the first ${number(state.accounts.length)}</span>` : null}>
        <${Table} id="accounts" label="Accounts" columns=${columns} rows=${state.accounts} none="no accounts"
          pick=${(row) => visit({ account: row.account })} picked=${(row) => row.account === chosen.account} />
          </${Panel}>
      ${chosen.account ? html`<${AccountPanel} key=${`${name} ${chosen.account}`} name=${name}
        account=${chosen.account} mark=${JSON.stringify(picked)} tones=${TONES}
        modules=${state.modules.map((module) => module.module)} can=${can} />` : null}
      <${ImportPanel} name=${name} can=${can} />
    </div>`;
}

function accountColumns(key, can) {
  return [
    { name: "account", title: "Account" },
    { name: "module", title: "Module" },
    { name: "instance", title: "Instance" },
    { name: "state", title: "State", cell: (row) => html`<${Badge} tone=${TONES[row.state] || "plain"}>${row.state}
      </${Badge}>` },
    { name: "used", title: "Used", right: true, cell: (row) => number(row.used) },
    { name: "quota", title: "Quota", right: true, cell: (row) => number(row.quota) },
    { name: "cost", title: "Cost", right: true, of: (row) => Number(row.cost) || 0, cell: (row) => text(row.cost) },
    { name: "next", title: "Next price", of: (row) => nextStep(row).rest,
      cell: (row) => html`<span class=${nextStep(row).rest < row.quota * 0.1 ? "rest soon" : ""}>${nextStep(row).words}
      </span>` },
    { name: "terminal", title: "Login" },
    ...(can ? [{ name: "act", title: "Action", of: () => "",
      cell: (row) => html`<${Act} can=${can} ask=${row.state === "frozen" ? `Use ${row.account} again?`
      : `Freeze ${row.account}?`}
      undo=${() => (row.state === "frozen" ? { ask: `Freeze ${row.account} again?`,
        words: ["ACCOUNT.FREEZE", key, row.account] } : { ask: `Use ${row.account} again?`,
        words: ["ACCOUNT.FREEZE", key, row.account, "OFF"] })}
      words=${() => ["ACCOUNT.FREEZE", key, row.account, ...(row.state === "frozen" ? ["OFF"] : [])]}>
        ${row.state === "frozen" ? "Unfreeze" : "Freeze"}</${Act}>` }] : []),
  ];
}

/** Use against quota, as a meter and in numbers. */
function Use({ line }) {
  const quota = Number(line.quota) || 0, used = Number(line.used) || 0;
  return html`<span class="use"><span class="meter"><span style=${{ width: `${Math.min(100,
    (100 * used) / Math.max(1, quota))}%` }}></span></span>${number(used)} of ${number(quota)} <span class="hint">
    ${percent(used, quota)}</span></span>`;
}

function Tree({ state }) {
  const usage = new Map(state.usage.map((line) => [line.name, line]));
  return html`<div class="tree">${state.departments.map((department) => html`<details open key=${department.name}>
    <summary><b>${department.name}</b> <${Use} line=${department} /> ${money(department)}</summary>
    ${state.modules.filter((module) => module.department === department.name).map((module) => html`<div
      key=${module.module}>
      <div class="leaf"><b>${module.module}</b> <${Use} line=${usage.get(module.module)
        || {}} /> ${money(usage.get(module.module) || {})}</div>
      ${(module.attached || []).map((entry) => {
        const instance = fields(entry);
        const mine = state.accounts.filter((account) => account.instance === instance.instance
          && account.module === module.module).length;
        return html`<div class="leaf instance"><span class="name">${instance.instance}
          </span> <${Badge} tone=${TONES[instance.state] || "plain"}>${text(instance.state)}
          </${Badge}> <span class="hint">${number(mine)} accounts</span></div>`;
      })}</div>`)}
  </details>`)}</div>`;
}

/** What it costs so far, and the use and the cost that are projected for the end of the month. */
function money(line) {
  const isKnown = line.projected !== null && line.projected !== undefined;
  const projection = isKnown ? `; projected use ${number(line.projected)}, cost ${text(line.projected_cost)}` : "";
  return html`<span class="hint">cost ${text(line.cost)}${projection}</span>`;
}

/** The use at which the next price begins, and this price. */
function nextStep(account) {
  const steps = String(account.tiers || "").split(" ");
  const price = Number(account.step) || 0;
  // The flat price ends at the quota; each step ends at its own limit.
  const from = price === 0 ? account.quota : Number(steps[2 * (price - 1)]);
  const next = steps[2 * price + 1];
  return next ? { rest: from - account.used, words: `${next} from ${number(from)}` }
    : { rest: Infinity, words: "last price" };
}

/** Moves that are listed; more are a number. */
const SHOWN_MOVES = 20;
/** Interval at which they are read, in milliseconds. */
const MOVES_INTERVAL = 5000;

/** The moves that a rebalance would make now. */
function Proposed({ name, can }) {
  const { answer } = useAsk(() => get("book/rebalance", { key: name }), [name], MOVES_INTERVAL);
  const moves = answer || [], count = moves.length;
  return html`<${Panel} title="Rebalance" extra=${html`<${Act} can=${can} disabled=${!count}
    ask=${`Make ${number(count)} moves?`} words=${() => ["ACCOUNT.REBALANCE", name]}>Rebalance</${Act}>`}>
    ${moves.length ? html`<ul class="plan">${moves.slice(0,
      SHOWN_MOVES).map((move) => html`<li><span>
      ${move.account}: ${text(move.from_instance)} → ${text(move.to_instance)}</span><b>avoids ${text(move.avoided)}
      </b></li>`)}
      ${count > SHOWN_MOVES ? html`<li class="hint">${number(count - SHOWN_MOVES)} more</li>` : null}</ul>`
        : html`<p class="hint">A rebalance would move nothing now.</p>`}
  </${Panel}>`;
}
