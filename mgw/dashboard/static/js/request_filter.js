/** Which requests are asked for: what the address says, as parameters of the API, and as a test of one event. */

import { FILTERS } from "./links.js";
import { OUTCOMES } from "./status.js";
import { PRESETS } from "./time_range.js";

/**
 * @typedef {object} Wanted
 * @property {string} id of a request, the gateway's or the provider's; then nothing else counts
 * @property {Record<string, string>} filters
 * @property {number | undefined} since Unix seconds
 * @property {number | undefined} until
 * @property {number | undefined} span seconds before now, for a range that moves with the time
 */

/** Fields of an event that a filter compares, where the names differ. */
const FIELDS = /** @type {Record<string, string>} */ ({ key: "key_hash" });
const MOMENTS = 1e11; // beyond any Unix time in seconds

/** @param {URLSearchParams} query of the address @returns {Wanted} */
export function wantedOf(query) {
  const id = query.get("id") ?? "";
  if (id) return { id, filters: {}, since: undefined, until: undefined, span: undefined };
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
  const [since, until] = [moment(query.get("since")), moment(query.get("until"))];
  const preset = PRESETS.find(([name]) => name === query.get("range"));
  const span = since === undefined && until === undefined ? preset?.[3] : undefined;
  return { id, filters, since, until, span };
}

/** @param {string | null} text @returns {number | undefined} */
function moment(text) {
  const value = Number(text);
  return value > 0 && value < MOMENTS ? value : undefined;
}

/** @param {Wanted} wanted @returns {boolean} whether anything is left out */
export function isFiltered({ id, filters, since, until, span }) {
  return Boolean(id || since || until || span || Object.keys(filters).length);
}

/** @param {Wanted} wanted @param {number} now Unix seconds @returns {Record<string, string | undefined>} for the API */
export function parameters({ filters, since, until, span }, now) {
  const from = span === undefined ? since : now - span;
  return { ...filters, since: from === undefined ? undefined : iso(from), until: until === undefined ? undefined : iso(until) };
}

/** @param {any} event @param {Wanted} wanted @param {number} now Unix seconds @returns {boolean} */
export function fits(event, { id, filters, since, until, span }, now) {
  if (id) return event.request_id === id || event.upstream_request_id === id;
  const begun = Date.parse(event.time) / 1000;
  const from = span === undefined ? since : now - span;
  if ((from !== undefined && begun < from) || (until !== undefined && begun >= until)) return false;
  return Object.entries(filters).every(([name, value]) => (name === "status" ? fitsStatus(event, value) : event[FIELDS[name] ?? name] === value));
}

/** @param {any} event @param {string} wanted an outcome, an HTTP status or a class such as 5xx @returns {boolean} */
function fitsStatus({ status, http_status }, wanted) {
  if (OUTCOMES.includes(wanted)) return status === wanted;
  const code = String(http_status ?? "");
  return wanted.endsWith("xx") ? code.length === 3 && code[0] === wanted[0] : code === wanted;
}

/** @param {number} unix @returns {string} */
export function iso(unix) {
  return new Date(Math.round(unix * 1000)).toISOString();
}
