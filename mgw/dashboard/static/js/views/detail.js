/** Everything that an event says, beside the table; over it on a small screen. */

import { h, fill } from "../dom.js";
import { facts } from "../controls.js";
import { bytes, dollars, milliseconds, time, whole } from "../format.js";
import { icon } from "../icons.js";
import { badge } from "../status.js";

/** @type {[string, string, (value: any) => Node | string][]} field, name, how it is written; the others follow */
const KNOWN = [
  ["status", "Status", badge],
  ["http_status", "HTTP status", String],
  ["error", "Error", String],
  ["time", "Time", time],
  ["latency_ms", "Latency", milliseconds],
  ["ttft_ms", "Time to first byte", milliseconds],
  ["client", "Client", String],
  ["key_hash", "Key hash", String],
  ["model", "Requested model", String],
  ["provider", "Provider", String],
  ["upstream_model", "Upstream model", String],
  ["attempts", "Upstream attempts", String],
  ["dialect", "Dialect", String],
  ["route", "Route", String],
  ["modality", "Modality", String],
  ["transport", "Transport", String],
  ["stream", "Streamed", (value) => (value ? "yes" : "no")],
  ["tokens_in", "Input tokens", whole],
  ["cache_read_tokens", "Cache read tokens", whole],
  ["cache_write_tokens", "Cache write tokens", whole],
  ["tokens_out", "Output tokens", whole],
  ["reasoning_tokens", "Reasoning tokens", whole],
  ["cost_usd", "Cost", dollars],
  ["session_minutes", "Session minutes", String],
  ["bytes_in", "Bytes in", bytes],
  ["bytes_out", "Bytes out", bytes],
  ["frames_in", "Frames in", whole],
  ["frames_out", "Frames out", whole],
  ["dropped_fields", "Dropped fields", (value) => value.join(", ")],
  ["request_id", "Request ID", String],
  ["upstream_request_id", "Upstream request ID", String],
];
const NAMES = new Set(KNOWN.map(([field]) => field));

export class Detail {
  /** @param {() => void} closed */
  constructor(closed) {
    /** @type {string | undefined} which event is shown */
    this.key = undefined;
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
   */
  show(event, back) {
    this.key = event.request_id;
    this.back = back;
    /** @type {[string, Node | string | undefined][]} */
    const pairs = KNOWN.map(([field, name, write]) => [name, event[field] === undefined ? undefined : write(event[field])]);
    for (const [field, value] of Object.entries(event)) if (!NAMES.has(field)) pairs.push([field, String(value)]);
    fill(this.body, facts(pairs));
    this.element.hidden = false;
    this.title.focus();
  }

  close() {
    this.element.hidden = true;
    this.key = undefined;
    this.closed();
    this.back();
  }
}
