/** Requests: those that are under way, and those that have ended since the page was opened, as they end. */

import { h, setText } from "../dom.js";
import { Choice, heading, panel, pauseButton, searchBox } from "../controls.js";
import { UNKNOWN, count, dollars, milliseconds, seconds, time } from "../format.js";
import { poll } from "../pace.js";
import { KEPT } from "../recent.js";
import { OUTCOMES, badge, word } from "../status.js";
import { Table } from "../table.js";
import { Detail } from "./detail.js";

/** @typedef {import("../main.js").App} App */

/** @param {any} row @param {string} name @returns {string} */
const text = (row, name) => row[name] ?? UNKNOWN;

/** @param {any} row @returns {string} known once the response has begun */
function mode(row) {
  if (row.transport === "websocket") return "WebSocket";
  if (row.stream) return "Streaming";
  return row.http_status === undefined ? UNKNOWN : "Non-streaming";
}

/** @type {import("../table.js").Column[]} */
const UNDER_WAY = [
  { key: "time", label: "Started", cell: (row) => time(row.time) },
  { key: "seconds", label: "Elapsed", numeric: true, cell: (row) => seconds(row.seconds) },
  { key: "client", label: "Client", cell: (row) => text(row, "client") },
  { key: "model", label: "Model", wide: true, cell: (row) => text(row, "model") },
  { key: "provider", label: "Provider", cell: (row) => text(row, "provider") },
  { key: "route", label: "Route", minor: true, cell: (row) => text(row, "route") },
  { key: "stream", label: "Mode", minor: true, cell: mode },
];

/** @type {import("../table.js").Column[]} */
const ENDED = [
  { key: "time", label: "Time", cell: (row) => time(row.time) },
  { key: "status", label: "Status", cell: (row) => h("span", { class: "outcome" }, badge(row.status), row.http_status === undefined ? "" : h("span", { class: "code" }, String(row.http_status))) },
  { key: "client", label: "Client", cell: (row) => text(row, "client") },
  { key: "model", label: "Model", wide: true, cell: (row) => text(row, "model") },
  { key: "provider", label: "Provider", cell: (row) => text(row, "provider") },
  { key: "route", label: "Route", minor: true, cell: (row) => text(row, "route") },
  { key: "latency", label: "Latency", numeric: true, cell: (row) => milliseconds(row.latency_ms) },
  { key: "ttft", label: "First byte", numeric: true, minor: true, cell: (row) => milliseconds(row.ttft_ms) },
  { key: "in", label: "Tokens in", numeric: true, cell: (row) => count(row.tokens_in) },
  { key: "out", label: "Tokens out", numeric: true, cell: (row) => count(row.tokens_out) },
  { key: "cost", label: "Cost", numeric: true, cell: (row) => dollars(row.cost_usd) },
  { key: "error", label: "Error", minor: true, cell: (row) => row.error ?? "" },
];
const SEARCHED = ["request_id", "model", "upstream_model", "client", "provider", "route", "error", "upstream_request_id", "key_hash"];

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  const underWay = new Table({ caption: "Requests in progress", columns: UNDER_WAY, rowKey: (row) => row.request_id, empty: "No requests in progress" });
  const howMany = h("span", { class: "note" });
  const wanted = { text: "", status: "", client: "", provider: "" };
  /** @type {any[] | undefined} what is shown while paused */
  let held;
  let heldAt = 0;

  const detail = new Detail(() => ended.mark(undefined));
  const ended = new Table({
    caption: "Completed requests, newest first",
    columns: ENDED,
    rowKey: (row) => row.request_id,
    empty: "",
    open: (row) => {
      detail.show(row, () => ended.focusRow(row.request_id));
      ended.mark(row.request_id);
    },
  });
  const pause = pauseButton((paused) => {
    held = paused ? app.recent.events.newestFirst() : undefined;
    heldAt = app.recent.events.added;
    draw();
  });
  const status = new Choice("Status", "Any status", (value) => { wanted.status = value; draw(); });
  status.offer(OUTCOMES, word);
  const client = new Choice("Client", "Any client", (value) => { wanted.client = value; draw(); });
  const provider = new Choice("Provider", "Any provider", (value) => { wanted.provider = value; draw(); });
  const search = searchBox("Search completed requests", "Model, ID, error…", (value) => { wanted.text = value; draw(); });
  const shown = h("span", { class: "note" });

  const beside = h("div", { class: "filters" }, search, status.element, client.element, provider.element, pause.element);
  root.append(
    heading("Requests"),
    panel("In progress", [howMany], underWay.element),
    h("div", { class: "with-detail" }, panel("Completed", [shown, beside], ended.element), detail.element),
  );

  function draw() {
    const events = held ?? app.recent.events.newestFirst();
    client.offer(events.map((event) => event.client));
    provider.offer(events.map((event) => event.provider));
    const rows = events.filter((event) => fits(event, wanted));
    ended.setEmpty(events.length ? "No requests match the filter" : "No requests have completed since you opened this page. New ones appear here.");
    ended.setRows(rows);
    ended.mark(detail.key);
    pause.show(held !== undefined, app.recent.events.added - heldAt);
    setText(shown, rows.length === events.length ? `${rows.length === KEPT ? "latest " : ""}${rows.length}` : `${rows.length} of ${events.length} match`);
  }

  app.recent.watch(draw, signal);
  poll(async () => {
    const answer = await app.api.get("requests", {}, signal);
    underWay.setRows(answer.requests);
    setText(howMany, answer.requests.length < answer.in_flight ? `oldest ${answer.requests.length} of ${answer.in_flight}` : String(answer.in_flight));
  }, () => 2, signal);
}

/**
 * @param {any} event
 * @param {{ text: string, status: string, client: string, provider: string }} wanted
 * @returns {boolean}
 */
function fits(event, { text: words, status, client, provider }) {
  if (status && event.status !== status) return false;
  if (client && event.client !== client) return false;
  if (provider && event.provider !== provider) return false;
  return !words || SEARCHED.some((name) => event[name]?.toLowerCase().includes(words));
}
