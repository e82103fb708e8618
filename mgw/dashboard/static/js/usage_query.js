/** The groups of the range that the address names, asked for again and again, as fast as they change. */

import { ApiError, sentence } from "./api.js";
import { moment } from "./format.js";
import { poll } from "./pace.js";
import { place } from "./router.js";
import { rangeOf } from "./time_range.js";

const LEAST_SECONDS = 5;
const MOST_SECONDS = 60;

/** @param {import("./time_range.js").Range} range @returns {{ since: string, until: string | undefined, step: number }} of a query */
export function parametersOf(range) {
  return { since: iso(range.since), until: range.live ? undefined : iso(range.until), step: range.step };
}

/** @returns {number} seconds from one query to the next: a long range changes slowly */
export function pause() {
  return Math.min(MOST_SECONDS, Math.max(LEAST_SECONDS, rangeOf(place().query, Date.now() / 1000).step / 10));
}

/** @param {import("./time_range.js").Range} range @returns {string} as "the last hour, as of 12:00:00" */
export function rangeWords(range) {
  const ends = range.live ? "" : `, ${moment(new Date(range.since * 1000))} to ${moment(new Date(range.until * 1000))}`;
  return `${range.label}${ends}, as of ${moment(new Date())}`;
}

/**
 * @param {import("./main.js").App} app
 * @param {"provider" | "model"} by
 * @param {AbortSignal} signal
 * @param {(groups: any[], words: string) => void} show with what the range is called
 * @param {(message: string) => void} fail
 * @returns {() => void} to call when the address has changed
 */
export function followGroups(app, by, signal, show, fail) {
  let asked = new AbortController();
  async function refresh() {
    const range = rangeOf(place().query, Date.now() / 1000);
    const { signal: mine } = asked;
    const answer = await app.api.get("usage", { ...parametersOf(range), by }, mine).catch((error) => {
      const isLost = error instanceof ApiError && error.status === 0; // a notice says so
      if (!mine.aborted && !isLost) fail(`Usage is unavailable: ${sentence(error.message)}`);
      throw error;
    });
    if (!mine.aborted) show(answer.groups ?? [], rangeWords(range));
  }
  const soon = poll(refresh, pause, signal);
  signal.addEventListener("abort", () => asked.abort(), { once: true });
  return () => {
    asked.abort();
    asked = new AbortController();
    soon(0);
  };
}

/** @param {number} unix @returns {string} */
function iso(unix) {
  return new Date(unix * 1000).toISOString();
}
