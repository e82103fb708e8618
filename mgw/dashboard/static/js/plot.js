/** The options of uPlot for our charts: colours from the style sheet, axes, bars that are stacked, lines, a cursor. */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { splitUnfinished, stack } from "./chart_data.js";

/** @typedef {import("./chart_data.js").Line} Line */
/**
 * @typedef {object} Look
 * @property {number} width
 * @property {number} height
 * @property {boolean} stacked
 * @property {number} step seconds of a point
 * @property {(value: number) => string} format
 * @property {boolean} isCount there is nothing between whole numbers
 * @property {boolean} unfinished the last step is in progress: bars are pale, lines dashed
 * @property {(index: number | null) => void} onCursor
 * @property {(since: number, until: number) => void} onSelect
 */

/** Seconds: with such a step, the time axis may name days, and its labels are longer. */
const DAYS_STEP = 600;
/** The dashes that lead to a value which may still change. */
const UNFINISHED = [3, 4];

/** @param {string} name of a custom property @returns {string} */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * @param {number[]} times
 * @param {Line[]} lines
 * @param {boolean} stacked
 * @param {boolean} unfinished
 * @returns {any[]} what uPlot draws: of stacked lines the highest first, so that the lower ones cover it
 */
export function plotData(times, lines, stacked, unfinished) {
  if (stacked) return [times, ...stack(lines).reverse()];
  if (!unfinished) return [times, ...lines.map(({ values }) => values)];
  const parts = lines.map(({ values }) => splitUnfinished(values));
  return [times, ...parts.map(([finished]) => finished), ...parts.map(([, rest]) => rest)];
}

/**
 * @param {Line[]} lines
 * @param {Look} look
 * @returns {any}
 */
export function plotOptions(lines, look) {
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const lastLabel = look.step >= DAYS_STEP ? "30 May 00 h" : look.step < 60 ? "00:00:00" : "00:00";
  const axis = { font, stroke: token("--muted"), ticks: { show: false }, grid: { stroke: token("--grid"), width: 1 } };
  return {
    width: look.width,
    height: look.height,
    legend: { show: false },
    padding: [8, Math.ceil(textWidth(lastLabel, font) / 2) + 4, 0, 0], // on the right, half of the last label of the time axis
    cursor: {
      y: false,
      dataIdx: (/** @type {any} */ plot) => stepAt(plot, look.step),
      sync: { key: "charts" },
      drag: { x: true, y: false, setScale: false },
      points: look.stacked ? { show: false } : { size: 7 },
    },
    scales: { x: { time: true, range: (/** @type {any} */ _, /** @type {number} */ first, /** @type {number} */ last) => [first, last + look.step] }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, values: AXIS_TIMES, space: 72, size: 26, gap: 6 },
      { ...axis, size: (/** @type {any} */ _, /** @type {string[] | null} */ labels) => axisWidth(labels, font), gap: 6, space: Math.max(34, look.height / 6), ...(look.isCount ? { incrs: WHOLE } : {}), values: (/** @type {any} */ _, /** @type {number[]} */ values) => values.map((value) => look.format(value).replace(/\.0+(?=\D|$)/, "")) },
    ],
    series: [{}, ...seriesOf(lines, look)],
    hooks: {
      setCursor: [(/** @type {any} */ plot) => look.onCursor(stepAt(plot, look.step))],
      setSelect: [(/** @type {any} */ plot) => select(plot, look)],
      draw: look.stacked && look.unfinished ? [(/** @type {any} */ plot) => fadeLast(plot)] : [],
    },
  };
}

/** @param {Line[]} lines @param {Look} look @returns {any[]} */
function seriesOf(lines, look) {
  if (!look.stacked) {
    const drawn = lines.map((line) => ({
      stroke: token(line.colour), width: 1.75, dash: line.dash, spanGaps: false,
      points: { show: true, filter: alone, size: 4, fill: token(line.colour) },
    }));
    return look.unfinished ? [...drawn, ...drawn.map((series) => ({ ...series, dash: UNFINISHED }))] : drawn;
  }
  const paths = /** @type {any} */ (uPlot).paths.bars({ size: [0.82, 48], align: 1 });
  return [...lines].reverse().map((line) => ({ stroke: token(line.colour), fill: token(line.colour), width: 0, paths, points: { show: false } }));
}

/**
 * Cover the bars of the step in progress with a veil: they are still growing.
 * @param {any} plot
 */
function fadeLast(plot) {
  const left = plot.valToPos(plot.data[0].at(-1), "x", true);
  plot.ctx.save();
  plot.ctx.globalAlpha = 0.6;
  plot.ctx.fillStyle = token("--surface");
  plot.ctx.fillRect(left, plot.bbox.top, plot.bbox.left + plot.bbox.width - left, plot.bbox.height);
  plot.ctx.restore();
}

/**
 * Points are drawn only where a line would show nothing: at values without a neighbour.
 * @param {any} plot
 * @param {number} index of the series
 * @returns {number[]}
 */
function alone(plot, index) {
  const values = plot.data[index];
  return values.flatMap((/** @type {number | null} */ value, /** @type {number} */ at) => (
    value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null ? [at] : []
  ));
}

/**
 * A value is that of the step which begins at its time, so the cursor means the step that it is in.
 * @param {any} plot
 * @param {number} step
 * @returns {number | null}
 */
export function stepAt(plot, step) {
  const [times] = plot.data;
  if (!(plot.cursor.left >= 0) || !times.length) return null;
  const index = Math.floor((plot.posToVal(plot.cursor.left, "x") - times[0]) / step);
  return Math.max(0, Math.min(times.length - 1, index));
}

/** @param {any} plot @param {Look} look */
function select(plot, look) {
  const { left, width } = plot.select;
  if (width < 4) return;
  const since = plot.posToVal(left, "x");
  const until = plot.posToVal(left + width, "x");
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  look.onSelect(Math.floor(since), Math.ceil(Math.max(until, since + look.step)));
}

const pen = document.createElement("canvas").getContext("2d");

/** @param {string} text @param {string} font @returns {number} pixels */
function textWidth(text, font) {
  if (!pen) return text.length * 6.4;
  pen.font = font;
  return pen.measureText(text).width;
}

/** @param {string[] | null} labels @param {string} font @returns {number} */
function axisWidth(labels, font) {
  return Math.max(34, Math.ceil(Math.max(0, ...(labels ?? []).map((label) => textWidth(label, font)))) + 12);
}

/** Distances of the lines of a grid: 1, 2, 5, 10 and so on. */
const WHOLE = Array.from({ length: 45 }, (_, index) => [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));

const AXIS_TIMES = [
  [86_400, "{D} {MMM}", null, null, null, null, null, null, 1],
  [21_600, "{D} {MMM} {HH} h", null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

/**
 * @param {HTMLElement} host
 * @param {number[]} times
 * @param {Line[]} lines
 * @param {Look} look
 * @returns {any} the plot, with `setData`, `setSize` and `destroy`
 */
export function makePlot(host, times, lines, look) {
  return new /** @type {any} */ (uPlot)(plotOptions(lines, look), plotData(times, lines, look.stacked, look.unfinished), host);
}
