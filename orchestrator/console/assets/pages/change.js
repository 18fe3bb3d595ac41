// Changes options of an unfinished task of compaction.
import { html } from "../lib/ui.js";
import { Act } from "../lib/parts.js";
import { useOptions } from "./options.js";

export function Change({ can, task }) {
  const { options, shared, clear } = useOptions();
  if (!can) return null;
  return html`<details class="submit"><summary>Change options</summary>
    <p class="hint">An empty field leaves its option as it is. The changes are for partitions that have not begun. The window <code>any</code> is the whole day.</p>
    <div class="form-groups">
      <fieldset><legend>When</legend>
        ${shared.window(task.window || "any")} ${shared.timeZone()} ${shared.priority(task.priority)} ${shared.limit(task.limit || "any")}
      </fieldset>
      <fieldset><legend>Failures</legend>
        ${shared.timeout(task.timeout ? `${task.timeout}s` : "of the unit")} ${shared.retries(task.retries)}
      </fieldset>
    </div>
    <div class="acts"><${Act} can=${can} path="compaction/set" disabled=${!Object.keys(options).length} body=${() => ({ ...options, id: task.id })} done=${clear} tell=${() => "changed"}>Change</${Act}></div>
  </details>`;
}
