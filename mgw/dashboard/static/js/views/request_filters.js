/** The filters of the requests: a field for each that is not set, and a chip that removes it for each that is. */

import { h, fill } from "../dom.js";
import { moment } from "../format.js";
import { icon } from "../icons.js";
import { FILTERS } from "../links.js";
import { wantedOf } from "../request_filter.js";
import { change, place } from "../router.js";
import { groupName } from "../names.js";
import { OUTCOMES, word } from "../status.js";
import { stepFor } from "../time_range.js";

/** @type {Record<string, string>} */
const NAMES = { client: "Client", provider: "Provider", model: "Model", route: "Route", status: "Status", error: "Error", key: "Provider key" };
/** Filters that have a field; the others come with links. */
const TYPED = ["client", "provider", "model", "error"];
const HTTP_STATUSES = ["400", "401", "403", "404", "413", "429", "499", "500", "502", "503", "504", "529"];
const CLASSES = ["2xx", "4xx", "5xx"];
const MOST_OFFERED = 200;
const LONG_AGO = 30 * 86_400;

export class RequestFilters {
  /**
   * @param {import("../main.js").App} app
   * @param {AbortSignal} signal
   */
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.id = h("input", { type: "search", "aria-label": "Find a request by ID", placeholder: "Request ID or upstream ID", autocomplete: "off", spellcheck: "false", maxlength: "256" });
    const form = h("form", { role: "search" }, this.id);
    form.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); this.find(); });
    this.id.addEventListener("paste", () => setTimeout(() => this.find()));
    this.id.addEventListener("change", () => this.find());
    /** @type {Map<string, HTMLInputElement | HTMLSelectElement>} */
    this.fields = new Map([["status", this.statuses()], ...TYPED.map((name) => /** @type {[string, any]} */ ([name, this.typed(name)]))]);
    /** @type {Map<string, Set<string>>} what is offered for each typed field */
    this.offered = new Map(TYPED.map((name) => [name, new Set()]));
    this.element = h("div", { class: "filters" }, form, [...this.fields.values()].map((field) => field.parentElement ?? field));
    this.chips = h("ul", { class: "chosen", "aria-label": "Filters", hidden: true });
    app.profiles.watch((profiles) => {
      this.offer("provider", (profiles?.providers ?? []).map((/** @type {any} */ { name }) => name));
      this.offer("model", (profiles?.aliases ?? []).map((/** @type {any} */ { name }) => name));
      this.offer("model", (profiles?.models ?? []).map((/** @type {any} */ { id }) => id));
    }, signal);
  }

  /** An id says which request it is, so it takes the place of everything else. */
  find() {
    const id = this.id.value.trim().replace(/^[\w-]+:\s+/, "").replace(/^["']|["',]+$/g, "");
    this.id.value = "";
    if (id) change({ ...nothing(), id });
  }

  /** @returns {HTMLSelectElement} */
  statuses() {
    const group = (/** @type {string} */ label, /** @type {[string, string][]} */ options) => h("optgroup", { label }, options.map(([value, words]) => h("option", { value }, words)));
    const select = h(
      "select", { "aria-label": "Status", "data-filter": "status" }, h("option", { value: "" }, "Status"),
      group("Outcome", OUTCOMES.map((value) => [value, word(value)])),
      group("HTTP status", [...CLASSES, ...HTTP_STATUSES].map((value) => [value, value])),
    );
    select.addEventListener("change", () => this.choose("status", select.value));
    return select;
  }

  /** @param {string} name @returns {HTMLInputElement} */
  typed(name) {
    const list = h("datalist", { id: `known-${name}` });
    const input = h("input", { type: "text", list: list.id, "aria-label": NAMES[name], "data-filter": name, placeholder: NAMES[name], autocomplete: "off", spellcheck: "false", maxlength: "256" });
    h("span", { class: "typed" }, input, list);
    input.addEventListener("change", () => this.choose(name, input.value.trim()));
    input.addEventListener("focus", () => this.lookUp(name), { once: true });
    return input;
  }

  /** @param {string} name @param {string} value */
  choose(name, value) {
    const field = this.fields.get(name);
    if (field) field.value = "";
    if (!value) return;
    change({ [name]: value, id: undefined });
  }

  /**
   * Offer what was used, the most used first; without an answer, the field takes any text.
   * @param {string} name
   */
  async lookUp(name) {
    const now = Date.now() / 1000;
    const { since, span } = wantedOf(place().query);
    const from = span === undefined ? since ?? now - LONG_AGO : now - span;
    const query = { by: name, since: new Date(from * 1000).toISOString(), step: stepFor(Math.max(60, now - from)) };
    try {
      const { groups } = await this.app.api.get("usage", query, this.signal);
      this.offer(name, [...groups].sort((one, other) => other.requests - one.requests).map(({ key }) => key));
    } catch {
      // the field takes any text
    }
  }

  /** @param {any[]} events whose names are offered */
  offerFrom(events) {
    for (const name of TYPED) this.offer(name, events.map((event) => event[name]));
  }

  /** @param {string} name @param {Iterable<string | undefined>} values */
  offer(name, values) {
    const known = /** @type {Set<string>} */ (this.offered.get(name));
    const list = this.fields.get(name)?.nextElementSibling;
    for (const value of values) {
      if (value === undefined || known.has(value) || known.size >= MOST_OFFERED) continue;
      known.add(value);
      list?.append(h("option", { value }));
    }
  }

  /** @param {URLSearchParams} query of the address */
  show(query) {
    const had = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.filter;
    const set = new Map(chosen(query));
    for (const [name, field] of this.fields) (field.parentElement?.matches(".typed") ? field.parentElement : field).hidden = set.has(name);
    const clear = set.size > 1 ? h("li", {}, h("button", { type: "button", class: "quiet small", on: { click: () => this.clear() } }, "Clear all")) : null;
    fill(this.chips, [...set].map(([name, words]) => h("li", {}, this.chip(name, words))), clear);
    this.chips.hidden = set.size === 0;
    if (had && this.element.isConnected) this.focusAfter(had);
  }

  /** @param {string} name @param {string} words @returns {HTMLElement} */
  chip(name, words) {
    const remove = () => change(name === "time" ? { since: undefined, until: undefined } : { [name]: undefined });
    return h("button", { type: "button", class: "chip", "data-filter": name, "aria-label": `Remove the filter ${words}`, on: { click: remove } }, h("span", { dir: "auto" }, words), icon("close"));
  }

  /** @param {string} name of a field or a chip that had the focus, and has given way to the other */
  focusAfter(name) {
    const chip = /** @type {HTMLElement | null} */ (this.chips.querySelector(`[data-filter="${name}"]`));
    (chip ?? this.fields.get(name) ?? this.id).focus();
  }

  clear() {
    change(nothing());
    this.id.focus();
  }
}

/** @returns {Record<string, undefined>} changes of the address that take all filters out */
export function nothing() {
  return Object.fromEntries([...FILTERS, "id", "range", "since", "until"].map((name) => [name, undefined]));
}

/** @param {URLSearchParams} query @returns {[string, string][]} names and words of what is set */
function chosen(query) {
  const { id, filters, since, until } = wantedOf(query);
  /** @type {[string, string][]} */
  const found = id ? [["id", `ID: ${id}`]] : [];
  if (since !== undefined || until !== undefined) found.push(["time", period(since, until)]);
  for (const [name, value] of Object.entries(filters)) found.push([name, `${NAMES[name]}: ${groupName(name, value).label}`]);
  return found;
}

/** @param {number | undefined} since @param {number | undefined} until @returns {string} */
function period(since, until) {
  const [from, to] = [since, until].map((unix) => (unix === undefined ? "" : moment(new Date(unix * 1000))));
  if (!to) return `Since ${from}`;
  return from ? `${from} to ${to}` : `Until ${to}`;
}
