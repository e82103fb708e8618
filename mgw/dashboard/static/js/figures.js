/** The figures of a range of time: shares, and the columns that tables of groups have in common. */

import { count, dollars, milliseconds, percent, whole } from "./format.js";
import { h } from "./dom.js";

/** @param {any} sums @returns {number | undefined} of the tokens that went in, those that came from the cache */
export function cacheShare(sums) {
  if (!sums.tokens_in) return undefined;
  return (sums.cache_read_tokens ?? 0) / sums.tokens_in;
}

/** @param {any} sums @returns {number | undefined} of the requests that a provider answered or failed, those that it failed */
export function failedShare({ answered = 0, failed: lost = 0 }) {
  return answered + lost ? lost / (answered + lost) : undefined;
}

/** @param {any} sums @returns {number | undefined} */
function tokens({ tokens_in: before, tokens_out: after }) {
  return before === undefined && after === undefined ? undefined : (before ?? 0) + (after ?? 0);
}

/** @param {any} sums @returns {Node | string} the number, and the share; red if there is one */
function failed(sums) {
  if (!sums.failed) return count(sums.failed);
  return h("span", { class: "pair" }, h("span", { class: "aside" }, percent(failedShare(sums))), h("strong", { class: "bad" }, count(sums.failed)));
}

/** @typedef {"requests" | "answered" | "failed" | "rejected" | "aborted" | "in" | "out" | "tokens" | "cache" | "cost" | "p50" | "p95" | "ttft50" | "ttft95"} Figure */

/** @type {Record<Figure, [string, (sums: any) => number | undefined, (value: number | undefined, sums: any) => Node | string]>} label, value, how it is written */
const FIGURES = {
  requests: ["Requests", (sums) => sums.requests, count],
  answered: ["Answered", (sums) => sums.answered, count],
  failed: ["Failed", (sums) => sums.failed, (_, sums) => failed(sums)],
  rejected: ["Rejected", (sums) => sums.rejected, count],
  aborted: ["Client left", (sums) => sums.aborted, count],
  in: ["Tokens in", (sums) => sums.tokens_in, count],
  out: ["Tokens out", (sums) => sums.tokens_out, count],
  tokens: ["Tokens", tokens, (value, sums) => h("span", { title: `${whole(sums.tokens_in)} in, ${whole(sums.tokens_out)} out` }, count(value))],
  cache: ["Cache", cacheShare, percent],
  cost: ["Cost", (sums) => sums.cost_usd, dollars],
  p50: ["p50", (sums) => sums.latency_ms_p50, milliseconds],
  p95: ["p95", (sums) => sums.latency_ms_p95, milliseconds],
  ttft50: ["First byte p50", (sums) => sums.ttft_ms_p50, milliseconds],
  ttft95: ["First byte p95", (sums) => sums.ttft_ms_p95, milliseconds],
};

/**
 * @param {(row: any) => any} sumsOf a row; none: it has no figures
 * @param {[Figure, number?, string?][]} wanted with the priority of the column, and its label if it is another one
 * @returns {import("./table.js").Column[]}
 */
export function figureColumns(sumsOf, wanted) {
  return wanted.map(([key, priority, label]) => {
    const [usual, value, write] = FIGURES[key];
    return {
      key, label: label ?? usual, numeric: true, priority,
      sort: (row) => value(sumsOf(row) ?? {}),
      cell: (row) => { const sums = sumsOf(row) ?? {}; return write(value(sums), sums); },
    };
  });
}
