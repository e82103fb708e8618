/** Ranges of time: a few that end now and move with it, and any other between two moments. */

/** @typedef {{ since: number, until: number, step: number, live: boolean, label: string }} Range in Unix seconds */

/** @type {[string, string, string, number][]} parameter, short words, words, seconds */
export const PRESETS = [
  ["15m", "15 min", "15 minutes", 900],
  ["1h", "1 h", "hour", 3600],
  ["6h", "6 h", "6 hours", 21_600],
  ["24h", "24 h", "24 hours", 86_400],
  ["7d", "7 d", "7 days", 604_800],
];
const DEFAULT = PRESETS[1];
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800];
const POINTS = 75;

/** @param {number} span seconds @returns {number} a round number of seconds that gives few enough points */
export function stepFor(span) {
  return STEPS.find((step) => span / step <= POINTS) ?? Math.ceil(span / POINTS / 86_400) * 86_400;
}

/**
 * @param {URLSearchParams} query of the address: `range`, or `since` and `until` in Unix seconds
 * @param {number} now Unix seconds
 * @returns {Range}
 */
export function rangeOf(query, now) {
  const since = Number(query.get("since"));
  const until = Number(query.get("until"));
  if (since > 0 && until > since && until < 1e11) {
    const step = stepFor(until - since);
    return { since, until, step, live: false, label: "the selected period" };
  }
  const [, , words, span] = PRESETS.find(([name]) => name === query.get("range")) ?? DEFAULT;
  const step = stepFor(span);
  return { since: Math.floor((now - span) / step) * step, until: now, step, live: true, label: `the last ${words}` };
}

/** @param {URLSearchParams} query @returns {string} which preset it is, or "custom" */
export function presetOf(query) {
  if (query.get("since") && query.get("until")) return "custom";
  return (PRESETS.find(([name]) => name === query.get("range")) ?? DEFAULT)[0];
}

/** @param {number} step seconds @returns {string} */
export function stepWords(step) {
  if (step % 86_400 === 0) return step === 86_400 ? "day" : `${step / 86_400} days`;
  if (step % 3600 === 0) return step === 3600 ? "hour" : `${step / 3600} h`;
  if (step % 60 === 0) return step === 60 ? "minute" : `${step / 60} min`;
  return step === 1 ? "second" : `${step} s`;
}

/** @param {number} unix @returns {string} for an input of the type datetime-local */
export function toInput(unix) {
  const date = new Date(unix * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
