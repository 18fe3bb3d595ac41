// Line charts over time.
import { html, useEffect, useRef } from "./ui.js";
import { colour, onColours } from "./colours.js";
import { calendar, clock, isUtc, number } from "./format.js";
import uPlot from "/vendor/uplot.js";

/** Shortest time that a chart shows, in seconds. */
const SHORTEST = 60;
/** Time between two points after which a line has a gap, in milliseconds: nothing was read meanwhile. */
const GAP = 5000;

/**
 * Lines over time, once there are two points.
 * @param {{label: string, at: number[], lines: {name: string, values: (number | null)[], colour: string, fill?:
 *   boolean, dash?: number[]}[],
 *          height?: number, unit?: string, gap?: number, stepped?: boolean, none?: string}} props `at` in
 *   milliseconds; `gap` is the time without a point after which a line has a gap; a `stepped` line keeps a value until
 *   the next point; `none` is what is said before there are two points
 */
export function Chart(props) {
  return props.at.length < 2 ? html`<p class="hint">${props.none ?? "The chart begins with its second point."}</p>`
    : html`<${Plot} ...${props} />`;
}

function Plot({ label, at, lines, height = 180, unit = "", gap = GAP, stepped = false }) {
  const place = useRef(null);
  const chart = useRef(null);
  const data = series(at, lines, gap);
  const shape = `${lines.map((line) => line.name).join("|")}${isUtc()}`;
  useEffect(() => {
    const element = place.current;
    const axis = { stroke: colour("--faint-text"), grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false }, font: "11px system-ui" };
    const make = () => {
      chart.current?.destroy();
      chart.current = new uPlot(
        {
          width: element.clientWidth || 300, height,
          padding: [8, 24, 0, 0],
          cursor: { points: { size: 6 }, drag: { x: false, y: false } },
          legend: { show: false },
          ...(isUtc() ? { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") } : {}),
          scales: { x: { range: (_, from, to) => [Math.min(from, to - SHORTEST), to] },
            y: { range: (_, low, high) => [Math.min(0, low), Math.max(1, high * 1.1)] } },
          axes: [{ ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map((tick) => moment(tick, ticks)) },
            { ...axis, size: (_, labels) => Math.max(48, 18 + 7 * longest(labels)) }],
          series: [
            {},
            ...lines.map((line) => ({
              stroke: colour(line.colour), width: 2, dash: line.dash, points: { show: false },
              paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
              fill: line.fill ? `${colour(line.colour)}22` : undefined,
            })),
          ],
        },
        data, element,
      );
      // Tests read the lines here.
      Object.assign(element, { chart: chart.current });
    };
    make();
    const sizes = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    const calm = onColours(make);
    return () => {
      sizes.disconnect();
      calm();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [shape, height]);
  useEffect(() => { chart.current?.setData(data); });
  // While values are old, there is none of now.
  const shown = (value) => (value === null || value === undefined ? "–"
    : `${number(Math.round(value * 10) / 10)}${unit}`);
  const last = lines.map((line) => [line, shown(line.values.at(-1))]);
  return html`<figure class="chart-of">
    <div class="chart" ref=${place} role="img" aria-label=${`${label}: now ${last.map(([line,
      value]) => `${line.name} ${value}`).join(", ")}`}></div>
    <figcaption class="key">${last.map(([line, value]) => html`<span>
      <svg width="20" height="8" aria-hidden="true"><line x1="0" y1="4" x2="20" y2="4" stroke=${`var(${line.colour})`}
        stroke-width="2.5" stroke-dasharray=${(line.dash || []).join(" ")} /></svg>
      ${line.name} <b>${value}</b></span>`)}</figcaption>
  </figure>`;
}

/** The length of the longest label of an axis. @param {string[] | null} labels */
const longest = (labels) => Math.max(0, ...(labels || []).map((label) => label?.length || 0));

/** The times in seconds, and the values of each line, with gaps. */
function series(at, lines, gap) {
  const data = [[], ...lines.map(() => [])];
  at.forEach((ms, index) => {
    const before = at[index - 1];
    if (ms - before > gap) data.forEach((list, line) => list.push(line ? null : (before + 1) / 1000));
    data.forEach((list, line) => list.push(line ? lines[line - 1].values[index] : ms / 1000));
  });
  return data;
}

/** A tick of the axis of time: a date if a day begins, and with seconds if the axis is short. */
function moment(tick, ticks) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0;
  const text = clock(tick * 1000);
  if (step >= 60 && text === "00:00:00") return calendar(tick * 1000).slice(5);
  return text.slice(0, step >= 60 ? 5 : 8);
}
