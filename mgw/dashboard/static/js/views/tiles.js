/** The totals of a range, and what is going on now, as tiles. */

import { h, setText } from "../dom.js";
import { cacheShare, failedShare } from "../figures.js";
import { UNKNOWN, count, counted, dollars, milliseconds, percent, whole } from "../format.js";

/** @typedef {{ label: string, value: (data: any) => string, more?: (data: any) => string, title?: (data: any) => string, bad?: (data: any) => boolean }} Tile */

/** @param {any} sums @param {string} name @returns {string} */
const share = (sums, name) => (sums.requests && sums[name] ? percent(sums[name] / sums.requests) : "");

/** @param {number | undefined} p95 @returns {string} */
const slowest = (p95) => (p95 === undefined ? "" : `p95 ${milliseconds(p95)}`);

/** @param {number} minutes @returns {string} with a decimal while it matters */
function sessionMinutes(minutes) {
  const shown = minutes < 10 ? Math.round(minutes * 10) / 10 : minutes;
  return shown < 10 && shown !== 1 ? `${shown} session minutes` : counted(shown, "session minute");
}

/** @type {Tile[]} */
const OF_USAGE = [
  { label: "Requests", value: (sums) => count(sums.requests), title: (sums) => whole(sums.requests), more: (sums) => (sums.answered === undefined ? "" : `${count(sums.answered)} answered`) },
  { label: "Failed", value: (sums) => percent(failedShare(sums)), title: () => "Failed at a provider, as a share of the requests that were answered or failed", more: (sums) => (sums.failed === undefined ? "" : counted(sums.failed, "request")), bad: (sums) => (failedShare(sums) ?? 0) > 0.05 },
  { label: "Rejected", value: (sums) => count(sums.rejected), title: () => "Refused by the gateway", more: (sums) => share(sums, "rejected") },
  { label: "Client left", value: (sums) => count(sums.aborted), title: () => "The client disconnected before the response was complete", more: (sums) => share(sums, "aborted") },
  { label: "Latency p50", value: (sums) => milliseconds(sums.latency_ms_p50), title: () => "Of answered requests", more: (sums) => slowest(sums.latency_ms_p95) },
  { label: "First byte p50", value: (sums) => milliseconds(sums.ttft_ms_p50), title: () => "Of answered requests", more: (sums) => slowest(sums.ttft_ms_p95) },
  { label: "Tokens in", value: (sums) => count(sums.tokens_in), title: (sums) => whole(sums.tokens_in), more: (sums) => (sums.cache_write_tokens ? `${count(sums.cache_write_tokens)} cache writes` : "") },
  { label: "Tokens out", value: (sums) => count(sums.tokens_out), title: (sums) => whole(sums.tokens_out), more: (sums) => (sums.reasoning_tokens ? `${count(sums.reasoning_tokens)} reasoning` : "") },
  { label: "Cache hits", value: (sums) => percent(cacheShare(sums)), title: () => "Share of the input tokens", more: (sums) => (sums.cache_read_tokens ? `${counted(sums.cache_read_tokens, "token")} read` : "of tokens in") },
  { label: "Cost", value: (sums) => dollars(sums.cost_usd), title: (sums) => (sums.cost_usd === undefined ? "No request in this period has a price" : `${sums.cost_usd} USD`), more: (sums) => (sums.cost_usd === undefined ? "" : "US dollars") },
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
    /** The minutes of sessions are those of the range. */
    this.minutes = "";
    this.element = h("dl", { class: "tiles", "aria-label": "Totals" }, [...this.ofUsage, ...this.ofProfiles].map(({ element }) => element));
  }

  /** @param {any} totals */
  showUsage(totals) {
    for (const { show } of this.ofUsage) show(totals);
    this.minutes = totals.session_minutes ? sessionMinutes(totals.session_minutes) : "";
    const more = this.ofProfiles[1].element.querySelector(".more");
    if (more && this.minutes) setText(more, this.minutes);
  }

  /** @param {any} profiles */
  showProfiles(profiles) {
    for (const { show } of this.ofProfiles) show(profiles);
    const more = this.ofProfiles[1].element.querySelector(".more");
    if (more && this.minutes) setText(more, this.minutes);
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
