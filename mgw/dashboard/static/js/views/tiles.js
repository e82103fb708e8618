/** The totals of a range, and what is going on now, as tiles. */

import { h, setText } from "../dom.js";
import { UNKNOWN, count, dollars, milliseconds, percent, whole } from "../format.js";

/** @typedef {{ label: string, value: (data: any) => string, more?: (data: any) => string, title?: (data: any) => string, bad?: (data: any) => boolean }} Tile */

/** @param {any} sums @returns {number | undefined} of the tokens that went in, those that came from the cache */
export function cacheShare(sums) {
  if (!sums.tokens_in) return undefined;
  return (sums.cache_read_tokens ?? 0) / sums.tokens_in;
}

/** @param {any} sums @returns {number | undefined} */
export function failedShare(sums) {
  return sums.requests ? sums.failed / sums.requests : undefined;
}

/** @type {Tile[]} */
const OF_USAGE = [
  { label: "Requests", value: (sums) => count(sums.requests), title: (sums) => whole(sums.requests), more: (sums) => (sums.session_minutes ? `${count(sums.session_minutes)} session minutes` : "") },
  { label: "Failed", value: (sums) => percent(failedShare(sums)), more: (sums) => `${count(sums.failed)} requests`, bad: (sums) => (failedShare(sums) ?? 0) > 0.05 },
  { label: "Tokens in", value: (sums) => count(sums.tokens_in), title: (sums) => whole(sums.tokens_in), more: (sums) => (sums.cache_write_tokens ? `${count(sums.cache_write_tokens)} written to the cache` : "") },
  { label: "Tokens out", value: (sums) => count(sums.tokens_out), title: (sums) => whole(sums.tokens_out), more: (sums) => (sums.reasoning_tokens ? `${count(sums.reasoning_tokens)} reasoning` : "") },
  { label: "Cache hits", value: (sums) => percent(cacheShare(sums)), more: (sums) => (sums.cache_read_tokens ? `${count(sums.cache_read_tokens)} tokens read` : "of tokens in") },
  { label: "Cost", value: (sums) => dollars(sums.cost_usd), title: (sums) => (sums.cost_usd === undefined ? "No request in this period has a price" : `${sums.cost_usd} USD`), more: (sums) => (sums.cost_usd === undefined ? "no prices" : "US dollars") },
  { label: "Latency p50", value: (sums) => milliseconds(sums.latency_ms_p50), more: (sums) => (sums.latency_ms === undefined ? "" : `mean ${milliseconds(sums.latency_ms)}`) },
  { label: "Latency p95", value: (sums) => milliseconds(sums.latency_ms_p95) },
  { label: "First byte p50", value: (sums) => milliseconds(sums.ttft_ms_p50), more: (sums) => (sums.ttft_ms_p95 === undefined ? "" : `p95 ${milliseconds(sums.ttft_ms_p95)}`) },
];

/** @type {Tile[]} */
const OF_PROFILES = [
  { label: "In progress", value: (profiles) => count(profiles.in_flight), more: () => "now" },
  { label: "Sessions", value: (profiles) => count(profiles.sessions), more: (profiles) => (profiles.max_sessions === undefined ? "now" : `of ${whole(profiles.max_sessions)}, now`) },
];

export class Tiles {
  constructor() {
    this.ofUsage = OF_USAGE.map(make);
    this.ofProfiles = OF_PROFILES.map(make);
    this.element = h("dl", { class: "tiles", "aria-label": "Totals" }, [...this.ofUsage, ...this.ofProfiles].map(({ element }) => element));
  }

  /** @param {any} totals */
  showUsage(totals) {
    for (const { show } of this.ofUsage) show(totals);
  }

  /** @param {any} profiles */
  showProfiles(profiles) {
    for (const { show } of this.ofProfiles) show(profiles);
  }
}

/** @param {Tile} tile @returns {{ element: HTMLElement, show: (data: any) => void }} */
function make(tile) {
  const value = h("dd", { class: "value" }, UNKNOWN);
  const more = h("dd", { class: "more" });
  const element = h("div", { class: "tile" }, h("dt", {}, tile.label), value, more);
  return {
    element,
    show: (data) => {
      setText(value, tile.value(data));
      value.title = tile.title?.(data) ?? "";
      setText(more, tile.more?.(data) ?? "");
      element.classList.toggle("bad", tile.bad?.(data) ?? false);
    },
  };
}
