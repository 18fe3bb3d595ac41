// A table that can be filtered and sorted, which are both in the page's address, and saved as a CSV file.
import { html, useMemo, useState } from "./ui.js";
import { choose, useAddress } from "./address.js";
import { number, text } from "./format.js";

/** Rows that are drawn at first, and those that are added on demand; the filter finds the others. */
const SHOWN = 200;

/**
 * A field of a CSV file (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe.
 * @param {any} value
 */
function field(value) {
  // What has no end is sorted behind the rest.
  let written = value === null || value === undefined || value === Infinity ? "" : String(value);
  if (typeof value === "object" && value) written = JSON.stringify(value);
  // Telephone numbers and negative numbers are none.
  const isFormula = /^[=@\t\r+-]/.test(written) && !/^[+-][\d.]+$/.test(written);
  if (isFormula && typeof value !== "number") written = `'${written}`;
  return /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
}

/** Saves rows as a CSV file. @param {string} name @param {any[][]} rows */
export function save(name, rows) {
  const lines = rows.map((row) => row.map(field).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  link.download = `${name}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * @typedef {{name: string, title: string, of?: (row: any) => any, cell?: (row: any) => any, right?: boolean}} Column
 * @param {{id: string, label: string, columns: Column[], rows: any[], pick?: (row: any) => void,
 *          picked?: (row: any) => boolean, none?: string}} props
 */
export function Table({ id, label, columns, rows, pick, picked, none = "nothing here" }) {
  const { chosen } = useAddress();
  const [shown, show] = useState(SHOWN);
  const wanted = (chosen[`${id}.find`] || "").toLowerCase();
  const [order, down] = (chosen[`${id}.sort`] || "").split("!");
  const value = (column, row) => (column.of ? column.of(row) : row[column.name]);
  const found = useMemo(() => {
    let list = rows;
    if (wanted) list = list.filter((row) => columns.some((column) => text(value(column,
      row)).toLowerCase().includes(wanted)));
    const by = columns.find((column) => column.name === order);
    if (by) {
      const compare = (a, b) => {
        const [x, y] = [value(by, a), value(by, b)];
        if (typeof x === "number" && typeof y === "number") return x - y;
        return text(x).localeCompare(text(y), "en", { numeric: true });
      };
      list = [...list].sort((a, b) => (down === undefined ? compare(a, b) : compare(b, a)));
    }
    return list;
  }, [rows, wanted, order, down, columns]);
  const saveFound = () => {
    // Columns of buttons have no values.
    const saved = columns.filter((column) => found.some((row) => value(column, row) !== undefined));
    const lines = found.map((row) => saved.map((column) => value(column, row)));
    save(id, [saved.map((column) => column.name), ...lines]);
  };
  const sort = (name) => choose({ [`${id}.sort`]: order === name && down === undefined ? `${name}!` : name });
  const mark = (name) => (order !== name ? undefined : down === undefined ? "ascending" : "descending");
  return html`
    <div class="table">
      ${rows.length > 8 || wanted
        ? html`<input class="find" type="search" placeholder="Filter" aria-label=${`Filter ${label}`}
          value=${chosen[`${id}.find`] || ""}
            onInput=${(event) => choose({ [`${id}.find`]: event.target.value })} />`
        : null}
      <div class="scroll" tabindex="0" role="region" aria-label=${`Table: ${label}`}>
        <table>
          <thead>
            <tr>${columns.map((column) => html`<th aria-sort=${mark(column.name)} class=${column.right ? "right" : ""}>
                <button type="button" onClick=${() => sort(column.name)}>${column.title}</button></th>`)}</tr>
          </thead>
          <tbody>
            ${found.slice(0, shown).map((row) => html`<tr class=${picked?.(row) ? "picked" : ""}
              onClick=${pick && (() => pick(row))}
                tabindex=${pick ? 0 : undefined} onKeyDown=${pick && ((event) => event.key === "Enter" && pick(row))}>
                ${columns.map((column) => html`<td class=${column.right ? "right" : ""}>
                  ${column.cell ? column.cell(row) : text(value(column, row))}</td>`)}
              </tr>`)}
            ${found.length === 0 ? html`<tr><td class="none" colspan=${columns.length}>${wanted ? "no match" : none}
              </td></tr>` : null}
          </tbody>
        </table>
      </div>
      ${found.length > shown ? html`<p class="hint">${number(found.length - shown)} more; the filter finds them
        <button type="button" class="quiet" onClick=${() => show(shown + SHOWN)}>
          ${number(Math.min(SHOWN, found.length - shown))} more rows</button></p>` : null}
      ${found.length ? html`<button type="button" class="quiet save" aria-label=${`Save ${label} as CSV`}
        onClick=${saveFound}>CSV</button>` : null}
    </div>`;
}
