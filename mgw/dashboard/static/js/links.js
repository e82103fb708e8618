/** Links that lead from a figure to the requests behind it. */

import { link } from "./router.js";

/** Filters of the requests that the address may hold, beside the range of time and an id. */
export const FILTERS = ["client", "provider", "model", "route", "status", "error", "key"];
const RANGE = ["range", "since", "until"];

/**
 * The requests that a row of a table, a card or a series stands for. Figures without a range in their address cover
 * the last hour, so the link says so: it leads to what was counted.
 * @param {Record<string, string | undefined>} filters by the names in {@link FILTERS}
 * @param {URLSearchParams} [query] of the address whose range is taken over; absent: any time
 * @returns {string}
 */
export function requestsLink(filters, query) {
  /** @type {[string, string][]} */
  const pairs = [];
  if (query) {
    for (const name of RANGE) if (query.get(name)) pairs.push([name, String(query.get(name))]);
    if (!pairs.length) pairs.push(["range", "1h"]);
  }
  for (const name of FILTERS) if (filters[name]) pairs.push([name, String(filters[name])]);
  return link("requests", new URLSearchParams(pairs));
}

/**
 * The permanent address of a request, by its id or by the provider's.
 * @param {string} id
 * @returns {string}
 */
export function requestLink(id) {
  return link("requests", { id });
}
