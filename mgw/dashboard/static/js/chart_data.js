/** From the answer of `usage` to columns of numbers, one for each line of a chart. */

/** @typedef {Record<string, any>} Point a row of the series */
/** @typedef {{ key: string, label: string, colour: string, values: (number | null)[], dash?: number[] }} Line */

export const NO_KEY = "(none)";
const MOST_LINES = 6;

/** @param {Point} row @returns {string} */
export function keyOf(row) {
  return row.key === undefined ? NO_KEY : String(row.key);
}

/**
 * @param {number} since
 * @param {number} until
 * @param {number} step
 * @returns {number[]} the beginning of each step, also of those without events
 */
export function gridOf(since, until, step) {
  const times = [];
  for (let time = Math.floor(since / step) * step; time < until; time += step) times.push(time);
  return times;
}

/**
 * @param {Point[]} rows
 * @param {number[]} times
 * @param {number} step
 * @param {(row: Point) => number | undefined} measure
 * @param {number | null} empty what a step without events has: 0 for sums, null for means
 * @returns {(number | null)[]}
 */
export function column(rows, times, step, measure, empty) {
  // what is known of no event is not zero: a model without a price did not cost nothing
  const isUnknown = rows.length > 0 && rows.every((row) => measure(row) === undefined);
  /** @type {(number | null)[]} */
  const values = times.map(() => (isUnknown ? null : empty));
  for (const row of rows) {
    const index = Math.floor((Date.parse(row.time) / 1000 - times[0]) / step);
    if (index < 0 || index >= values.length) continue;
    const value = measure(row);
    if (value !== undefined) values[index] = empty === null ? value : (values[index] ?? 0) + value;
  }
  return values;
}

/**
 * The groups that have a line of their own: those with most requests; the others are one.
 * @param {Point[]} groups
 * @returns {string[]}
 */
export function leading(groups) {
  const named = groups.filter((group) => group.key !== "other").sort((a, b) => b.requests - a.requests);
  return named.slice(0, named.length > MOST_LINES ? MOST_LINES - 1 : MOST_LINES).map(keyOf);
}

/** @param {(number | null)[]} values @returns {number | null} of what is known, if anything is */
export function sum(values) {
  if (values.every((value) => value === null)) return null;
  return values.reduce((/** @type {number} */ total, value) => total + (value ?? 0), 0);
}

/**
 * The values of finished steps, and those from the last of them to the step in progress, which is drawn in another
 * way: what it has so far is not what it will have.
 * @param {(number | null)[]} values
 * @returns {[(number | null)[], (number | null)[]]}
 */
export function splitUnfinished(values) {
  const last = values.length - 1;
  return [values.map((value, index) => (index < last ? value : null)), values.map((value, index) => (index < last - 1 ? null : value))];
}

/**
 * Sums up to and with each line, for areas that stand on one another.
 * @param {Line[]} lines
 * @returns {(number | null)[][]}
 */
export function stack(lines) {
  /** @type {number[]} */
  let below = [];
  return lines.map(({ values }) => {
    below = values.map((value, index) => (below[index] ?? 0) + (value ?? 0));
    return below;
  });
}
