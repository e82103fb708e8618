/** Words, icons and colours of outcomes and states: never a colour alone. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** Outcomes of requests, in the order in which they are stacked. */
export const OUTCOMES = ["ok", "rejected", "client_abort", "upstream_error"];

/** @type {Record<string, string>} */
const WORDS = {
  ok: "Answered", upstream_error: "Failed", client_abort: "Client left", rejected: "Rejected", healthy: "Healthy",
  in_progress: "In progress", failing: "Failing", unknown: "Unknown", ready: "Ready", expired: "Expired", missing: "Missing", resting: "Cooldown",
  signed_in: "Logged in", signed_out: "Not logged in", pending: "Waiting", complete: "Logged in", failed: "Failed",
  cancelled: "Canceled",
};

/** @type {Record<string, string>} the tone, and so the icon, of a word */
const TONES = {
  ok: "ok", healthy: "ok", ready: "ok", signed_in: "ok", complete: "ok",
  rejected: "rejected", resting: "rejected", expired: "rejected", missing: "rejected", signed_out: "rejected",
  client_abort: "client_abort", cancelled: "client_abort",
  in_progress: "in_progress", upstream_error: "upstream_error", failing: "upstream_error", failed: "upstream_error",
};

/** @param {string} state @returns {string} */
export function word(state) {
  return WORDS[state] ?? state;
}

/** @param {string} state @returns {HTMLElement} */
export function badge(state) {
  const tone = TONES[state] ?? "unknown";
  return h("span", { class: `badge tone-${tone}` }, icon(tone), word(state));
}

/** @param {any} health of a provider @returns {HTMLElement} */
export function healthBadge(health) {
  if (!health || (health.state === "unknown" && !health.last_failure)) return h("span", { class: "aside" }, "No requests yet");
  return badge(health.state === "ok" ? "healthy" : health.state ?? "unknown");
}

/** @param {string[] | undefined} names @returns {HTMLElement | string} */
export function chips(names) {
  if (!names?.length) return "";
  return h("ul", { class: "chips" }, names.map((name) => h("li", {}, name)));
}
