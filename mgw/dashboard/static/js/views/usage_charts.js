/** The charts of the overview: a row of a table says what each one shows, as a whole and broken down. */

import { h } from "../dom.js";
import { Chart } from "../chart.js";
import { NO_KEY, column, gridOf, keyOf, leading, sum } from "../chart_data.js";
import { cacheShare, failedShare } from "../figures.js";
import { count, dollars, milliseconds, momentOfSpan, percent } from "../format.js";
import { OUTCOMES } from "../status.js";
import { stepWords } from "../time_range.js";

/** @typedef {import("../chart_data.js").Line} Line */
/** @typedef {{ grouped: any, plain: any, by: string, range: import("../time_range.js").Range, nameOf: (key: string | undefined) => import("../names.js").Name }} Shown */
/** @typedef {(row: any) => number | undefined} Measure */
/**
 * @typedef {object} Row
 * @property {string} title
 * @property {(value: number) => string} format
 * @property {boolean} isSum sums are stacked and add up; means and shares are lines
 * @property {Measure} measure of a group
 * @property {string} [ofGroup] what the measure of a group is, for the note
 * @property {[string, string, Measure, number[]?][]} [whole] lines when nothing is broken down: name, colour, measure, dashes
 * @property {boolean} [byOutcome] broken down by status, which then is the whole
 */

/** @type {Row[]} */
const ROWS = [
  { title: "Requests", format: count, isSum: true, measure: (row) => row.requests, byOutcome: true },
  {
    title: "Latency", format: milliseconds, isSum: false, measure: (row) => row.latency_ms_p95, ofGroup: "p95",
    whole: [
      ["p95", "--line-2", (row) => row.latency_ms_p95],
      ["p50", "--line-1", (row) => row.latency_ms_p50],
      ["First byte p50", "--line-3", (row) => row.ttft_ms_p50, [5, 4]],
    ],
  },
  {
    title: "Tokens", format: count, isSum: true, measure: (row) => (row.tokens_in ?? 0) + (row.tokens_out ?? 0), ofGroup: "in and out",
    whole: [
      ["In, cached", "--line-3", (row) => row.cache_read_tokens],
      ["In, new", "--line-1", (row) => (row.tokens_in === undefined ? undefined : Math.max(0, row.tokens_in - (row.cache_read_tokens ?? 0)))],
      ["Out", "--line-2", (row) => row.tokens_out],
    ],
  },
  { title: "Cost", format: dollars, isSum: true, measure: (row) => row.cost_usd, whole: [["US dollars", "--line-1", (row) => row.cost_usd]] },
  { title: "Failures", format: percent, isSum: false, measure: failedShare, ofGroup: "share of requests answered or failed", whole: [["Share of requests answered or failed", "--status-upstream_error", failedShare]] },
  { title: "Cache hits", format: percent, isSum: false, measure: cacheShare, ofGroup: "share of tokens in", whole: [["Share of tokens in", "--line-3", cacheShare]] },
];

export class UsageCharts {
  /**
   * @param {AbortSignal} signal
   * @param {(since: number, until: number) => void} onSelect
   */
  constructor(signal, onSelect) {
    this.charts = ROWS.map(({ title }) => new Chart(title, signal, onSelect));
    this.element = h("div", { class: "charts" }, this.charts.map(({ element }) => element));
    /** @type {Map<string, string>} the colour of each group that has one */
    this.colours = new Map();
  }

  /** @param {Shown} shown */
  show(shown) {
    const { by, grouped, range } = shown;
    const step = grouped.step ?? range.step;
    const times = gridOf(range.since, range.until, step);
    const unfinished = range.live && /** @type {number} */ (times.at(-1)) + step > range.until;
    const keys = by === "status" ? OUTCOMES : leading(grouped.groups ?? []);
    this.colours = new Map(keys.map((key, index) => [key, by === "status" ? `--status-${key}` : `--line-${index + 1}`]));
    ROWS.forEach((row, index) => {
      const isWhole = by === "status" && !row.byOutcome;
      const lines = isWhole ? wholeLines(row, shown.plain.series, times, step) : this.groupLines(row, shown, keys, times, step);
      const per = row.isSum ? `per ${stepWords(step)}` : `by ${stepWords(step)}`;
      this.charts[index].show({
        times, step, lines, unfinished, stacked: row.isSum, format: row.format, isCount: row.format === count, moment: momentOfSpan(range.until - range.since),
        note: [!isWhole && row.ofGroup, per].filter(Boolean).join(", "),
        total: row.isSum ? sum : undefined,
      });
    });
  }

  /**
   * @param {Row} row
   * @param {Shown} shown
   * @param {string[]} keys the groups that have a line
   * @param {number[]} times
   * @param {number} step
   * @returns {Line[]}
   */
  groupLines(row, { grouped, nameOf }, keys, times, step) {
    const empty = row.isSum ? 0 : null;
    /** @type {Map<string, any[]>} */
    const rows = new Map(keys.map((key) => [key, []]));
    /** @type {any[]} */
    const others = [];
    for (const point of grouped.series) (rows.get(keyOf(point)) ?? others).push(point);
    const lines = keys.map((key) => ({
      key, label: nameOf(key === NO_KEY ? undefined : key).label, colour: /** @type {string} */ (this.colours.get(key)),
      values: column(rows.get(key) ?? [], times, step, row.measure, empty),
    }));
    // a mean or share of all others cannot be told from theirs
    if (!row.isSum || !others.length) return lines;
    return [...lines, { key: "other", label: "Others", colour: "--line-rest", values: column(others, times, step, row.measure, empty) }];
  }
}

/**
 * @param {Row} row
 * @param {any[]} series
 * @param {number[]} times
 * @param {number} step
 * @returns {Line[]}
 */
function wholeLines({ whole, isSum }, series, times, step) {
  return (whole ?? []).map(([label, colour, measure, dash]) => ({
    key: label, label, colour, dash, values: column(series, times, step, measure, isSum ? 0 : null),
  }));
}
