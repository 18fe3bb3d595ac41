// One account of a book: its record, its last assignments, and what an operator does with it.
import { html } from "../lib/ui.js";
import { command } from "../lib/api.js";
import { visit } from "../lib/address.js";
import { Act, Badge, Panel } from "../lib/parts.js";
import { Table } from "../lib/table.js";
import { useAsk } from "../lib/live.js";
import { number, text, time } from "../lib/format.js";

const HISTORY = [
  { name: "epoch", title: "Epoch", right: true },
  { name: "module", title: "Module" },
  { name: "instance", title: "Instance" },
  { name: "from", title: "From", cell: (row) => time(row.from) },
  { name: "to", title: "To", cell: (row) => (row.to ? time(row.to) : "now") },
];

/**
 * `mark` changes when the account does. @param {{name: string, account: string, mark: string, modules: string[], can:
 * boolean, tones: Record<string, string>}} props
 */
export function AccountPanel({ name, account, mark, modules, can, tones }) {
  const ask = () => Promise.all([command("ACCOUNT.INFO", name, "ACCOUNT", account),
    command("ACCOUNT.HISTORY", name, account)]);
  const { answer, wrong } = useAsk(ask, [name, account, mark]);
  const close = html`<button type="button" class="quiet" onClick=${() => visit({ account: null })}>Close</button>`;
  if (!answer) return html`<${Panel} title=${`Account ${account}`} wide extra=${close}>
    <p class="hint">${wrong || "…"}</p></${Panel}>`;
  const [record, history] = answer;
  const { module, instance, state, epoch, terminal } = record;
  const login = terminal ? ` It is logged in at ${terminal}, and moves when this login ends.` : "";
  const others = modules.filter((other) => other !== module);
  return html`<${Panel} title=${`Account ${account}`} wide extra=${close}>
    <div class="tally"><${Badge} tone=${tones[state] || "plain"}>${state}</${Badge}> <span class="hint">
      module ${module}, instance ${text(instance)} since ${time(record.since)}, epoch ${text(epoch)},
      login ${text(terminal)}</span></div>
    <p class="hint">${number(record.since_turn)} of ${number(record.quota)} used, cost ${text(record.cost)},
      limit ${record.cap ? number(record.cap) : "none"}${record.frozen_until
      ? `, frozen until ${time(record.frozen_until)}` : ""}.</p>
    <${Table} id="assignments" label="Assignments of the account" columns=${HISTORY} rows=${[...history].reverse()}
      none="it was never assigned" />
    ${can ? html`<div class="acts">
      ${others.length ? html`<${Act} can=${can} fields=${[{ title: `To module (${others.join(", ")})` }]}
        check=${(to) => (others.includes(to) ? "" : `there is no other module '${to}'`)}
        ask=${(to) => `Move ${account} from ${module} to ${to || "another module"}?${login}`}
        words=${(to) => ["ACCOUNT.MOVE", name, to, 1, account]}>Move</${Act}>` : null}
      ${instance && epoch ? html`<${Act} can=${can} fields=${[{ title: "Epoch", value: epoch }]}
        check=${(typed) => (/^\d+$/.test(typed) ? "" : "an epoch is a number")}
        ask=${(typed) => `Assign ${account} again to ${instance}, with an epoch greater than ${typed}? `
          + "All later epochs of the book are greater, too. A login remains."}
        words=${(typed) => ["ACCOUNT.RAISE", name, typed, "ACCOUNT", account]}
        tell=${(changed) => (Number(changed) ? "raised" : "its epoch is greater already")}>Raise</${Act}>` : null}
    </div>` : null}
  </${Panel}>`;
}
