/** Everything that an event says, beside the table; over it on a small screen. */

import { h, fill } from "../dom.js";
import { explanation, side } from "../causes.js";
import { facts } from "../controls.js";
import { copyButton } from "../copy.js";
import { EVENT_NAMES } from "../event_names.js";
import { bytes, dollars, milliseconds, seconds, time, whole } from "../format.js";
import { icon } from "../icons.js";
import { requestLink, requestsLink } from "../links.js";
import { clientName, keyName } from "../names.js";
import { badge, chips } from "../status.js";

/** @typedef {(value: any, providers: any[], event: any) => Node | string} Write */

/** @param {string} filter @param {string} whose @returns {Write} a value that leads to all requests with it */
const leads = (filter, whose) => (value) => h("a", { href: requestsLink({ [filter]: value }), title: `All requests ${whose}`, dir: "auto" }, value);
/** @param {string} filter @param {string} whose @param {(value: string, providers: any[]) => import("../names.js").Name} called @returns {Write} */
const named = (filter, whose, called) => (value, providers) => {
  const { label, title } = called(value, providers);
  return h("a", { href: requestsLink({ [filter]: value }), title: `All requests ${whose}. ${title}`, dir: "auto" }, label);
};
/** @type {Write} */
const plain = (value) => h("span", { dir: "auto" }, value);

/** @param {string} what @returns {Write} */
const copied = (what) => (value) => h("span", { class: "id" }, h("code", {}, value), copyButton(what, value));

/** @type {[string, [string, Write][]][]} groups of field and how it is written; other fields follow */
const GROUPS = [
  ["What", [
    ["model", leads("model", "for this model")],
    ["upstream_model", plain],
    ["route", leads("route", "of this route")],
    ["dialect", String],
    ["modality", String],
    ["transport", (value) => (value === "websocket" ? "WebSocket" : value.toUpperCase())],
    ["stream", (value) => (value ? "yes" : "no")],
  ]],
  ["Who and where", [
    ["client", named("client", "of this client", clientName)],
    ["client_groups", chips],
    ["tags", (value) => chips(Object.entries(value).map(([name, text]) => `${name}: ${text}`))],
    ["provider", leads("provider", "to this provider")],
    ["key_hash", named("key", "with this credential", keyName)],
    ["attempts", String],
  ]],
  ["Times", [
    ["time", time],
    ["seconds", seconds],
    ["ttft_ms", milliseconds],
    ["latency_ms", milliseconds],
    ["session_minutes", String],
  ]],
  ["Tokens and cost", [
    ["tokens_in", whole],
    ["cache_read_tokens", whole],
    ["cache_write_tokens", whole],
    ["tokens_out", whole],
    ["reasoning_tokens", whole],
    ["tokens_in_estimated", (value) => `~${whole(value)}`],
    ["tokens_out_estimated", (value) => `~${whole(value)}`],
    ["service_tier", String],
    ["price_tier", String],
    ["charged_usd", (value, _, event) => h("span", { title: `$${value}` }, `${event.cost_usd === undefined ? "~" : ""}${dollars(value)}`)],
    ["limit_warnings", chips],
    ["cost_usd", (value) => h("span", { title: `$${value}` }, dollars(value))],
  ]],
  ["Session traffic", [
    ["bytes_in", bytes],
    ["bytes_out", bytes],
    ["frames_in", whole],
    ["frames_out", whole],
  ]],
  ["Dropped in translation", [["dropped_fields", chips]]],
  ["Changes to the request", [["body_rules", String]]],
  ["IDs", [
    ["request_id", copied("the request ID")],
    ["upstream_request_id", copied("the upstream request ID")],
  ]],
];
/** Fields that the head of the pane shows. */
const HEAD = ["status", "http_status", "error", "error_message"];
const KNOWN = new Set([...HEAD, ...GROUPS.flatMap(([, fields]) => fields.map(([field]) => field))]);

export class Detail {
  /** @param {() => void} closed @param {() => any[]} providers of `profiles` */
  constructor(closed, providers) {
    this.providers = providers;
    /** @type {string | undefined} which event is shown */
    this.key = undefined;
    /** Whether the request was in progress, so that more will be known. */
    this.isUnfinished = false;
    this.closed = closed;
    /** @type {() => void} */
    this.back = () => undefined;
    this.title = h("h2", { tabindex: "-1" }, "Request");
    this.body = h("div");
    const close = h("button", { type: "button", class: "quiet small", "aria-label": "Close details", on: { click: () => this.close() } }, icon("close"));
    this.element = h("aside", { class: "panel detail", "aria-label": "Request details", hidden: true }, h("div", { class: "panel-head" }, this.title, close), this.body);
    this.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") this.close(); });
  }

  /**
   * @param {any} event
   * @param {() => void} back gives the focus back
   * @param {boolean} [takesFocus]
   */
  show(event, back, takesFocus = true) {
    this.key = event.request_id;
    this.back = back;
    this.renew(event);
    this.element.hidden = false;
    this.element.scrollTop = 0;
    if (takesFocus) this.title.focus();
  }

  /** @param {any} event what is shown, of which more may be known now */
  renew(event) {
    const hadFocus = this.body.contains(document.activeElement);
    this.isUnfinished = event.status === undefined;
    fill(this.body, head(event), GROUPS.map(([name, fields]) => group(name, fields, event, this.providers())), others(event), permanent(event.request_id));
    if (hadFocus) this.title.focus();
  }

  close() {
    if (this.element.hidden) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = true;
    this.key = undefined;
    this.closed();
    if (hadFocus) this.back();
  }
}

/** @param {any} event @returns {HTMLElement} how it ended, whose side that was, and why */
function head(event) {
  const status = h("p", { class: "outcome" }, badge(event.status ?? "in_progress"), event.http_status === undefined ? "" : h("span", { class: "code" }, `HTTP ${event.http_status}`));
  const why = event.error === undefined ? null : h("p", {}, explanation(event.error), " ", h("a", { href: requestsLink({ error: event.error }), title: "All requests with this error" }, h("code", {}, event.error)));
  const said = event.error_message === undefined ? null : h("figure", { class: "said" }, h("figcaption", {}, "The provider's message"), h("blockquote", { dir: "auto" }, event.error_message));
  return h("div", { class: `verdict verdict-${event.status ?? "in_progress"}` }, status, h("p", { class: "whose" }, side(event)), why, said);
}

/**
 * @param {string} name
 * @param {[string, Write][]} fields
 * @param {any} event
 * @param {any[]} providers
 * @returns {HTMLElement | null}
 */
function group(name, fields, event, providers) {
  const known = fields.filter(([field]) => event[field] !== undefined && event[field] !== "");
  if (!known.length) return null;
  return h("section", { "aria-label": name }, h("h3", {}, name), facts(known.map(([field, write]) => [nameOf(field), write(event[field], providers, event)])));
}

/** @param {string} field @returns {string} */
function nameOf(field) {
  return EVENT_NAMES[field] ?? (field === "seconds" ? "Elapsed" : field);
}

/** @param {any} event @returns {HTMLElement | null} fields that have no group, or that a newer gateway has */
function others(event) {
  const found = Object.entries(event).filter(([field]) => !KNOWN.has(field));
  if (!found.length) return null;
  return h("section", { "aria-label": "Other" }, h("h3", {}, "Other"), facts(found.map(([field, value]) => [nameOf(field), String(value)])));
}

/** @param {string} id @returns {HTMLElement} */
function permanent(id) {
  const address = new URL(requestLink(id), location.href).href;
  return h("p", { class: "permanent" }, h("a", { href: requestLink(id) }, icon("link"), "Link to this request"), copyButton("the link", address));
}
