/** Requests: the past from the gateway's history, newest first, and what is in progress or ends while one looks on. */

import { ApiError } from "../api.js";
import { h, setText } from "../dom.js";
import { heading, panel, pauseButton } from "../controls.js";
import { UNKNOWN, approximate, count, dollars, milliseconds, seconds, time, whole } from "../format.js";
import { clientName } from "../names.js";
import { paced, poll } from "../pace.js";
import { RequestList } from "../request_list.js";
import { isFiltered, wantedOf } from "../request_filter.js";
import { change, place } from "../router.js";
import { badge } from "../status.js";
import { Table } from "../table.js";
import { Detail } from "./detail.js";
import { listEnd } from "./list_end.js";
import { rangePicker } from "./range_picker.js";
import { RequestFilters, nothing } from "./request_filters.js";

/** @typedef {import("../main.js").App} App */

const MOST_IN_PROGRESS = 20;
const PROGRESS_SECONDS = 2;
/** So far from the top, the reader reads on: new rows wait, so that nothing moves. */
const AWAY = 60;
/** So near to the end, the next page comes. */
const NEAR_END = 240;

/** @param {any} row @param {string} name @returns {string} */
const text = (row, name) => row[name] ?? UNKNOWN;

/** @type {import("../table.js").Column[]} */
const COLUMNS = [
  { key: "time", label: "Time", cell: (row) => time(row.time) },
  { key: "status", label: "Status", cell: outcome },
  { key: "client", label: "Client", cell: client },
  { key: "provider", label: "Provider", priority: 4, cell: (row) => text(row, "provider") },
  { key: "model", label: "Model", wide: true, cell: (row) => text(row, "model") },
  { key: "tokens", label: "Tokens", numeric: true, priority: 3, cell: tokens },
  { key: "cost", label: "Cost", numeric: true, cell: (row) => later(row, dollars(row.cost_usd)) },
  { key: "latency", label: "Latency", numeric: true, priority: 5, cell: (row) => (isInProgress(row) ? seconds(row.seconds) : milliseconds(row.latency_ms)) },
  { key: "ttft", label: "First byte", numeric: true, priority: 2, cell: (row) => later(row, milliseconds(row.ttft_ms)) },
  { key: "route", label: "Route", priority: 1, cell: (row) => text(row, "route") },
  { key: "error", label: "Error", cell: failure },
];

/** @param {any} row @returns {HTMLElement | string} a key without a name, as such */
function client(row) {
  if (row.client === undefined) return UNKNOWN;
  const { label, title } = clientName(row.client);
  return h("span", { title }, label);
}

/** @param {any} row @returns {boolean} */
const isInProgress = (row) => row.status === undefined;

/** @param {any} row @returns {HTMLElement} */
function outcome(row) {
  return h("span", { class: "outcome" }, badge(row.status ?? "in_progress"), row.http_status === undefined ? "" : h("span", { class: "code" }, row.http_status));
}

/** @param {any} row @param {string} words @returns {string} what is known once it has ended */
function later(row, words) {
  return isInProgress(row) ? "" : words;
}

/** @param {any} row @returns {HTMLElement | string} */
function tokens(row) {
  const { tokens_in: before, tokens_out: after, tokens_in_estimated: before2, tokens_out_estimated: after2 } = row;
  if ((before ?? after ?? before2 ?? after2) === undefined) return later(row, UNKNOWN);
  const title = `${approximate(before, before2, whole)} in, ${approximate(after, after2, whole)} out`;
  return h("span", { title: (before2 ?? after2) === undefined ? title : `${title} (~: estimated)` }, `${approximate(before, before2)} → ${approximate(after, after2)}`);
}

/** @param {any} row @returns {HTMLElement | string} */
function failure({ error, error_message: message }) {
  if (!error && !message) return "";
  return h("span", { title: message ?? error, dir: "auto" }, error, message ? h("span", { class: "aside" }, ` ${message}`) : "");
}

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @param {AbortSignal} signal
 * @returns {() => void} to call when the address has changed
 */
export function show(root, app, signal) {
  return new RequestsView(root, app, signal).follow();
}

class RequestsView {
  /**
   * @param {HTMLElement} root
   * @param {App} app
   * @param {AbortSignal} signal
   */
  constructor(root, app, signal) {
    this.app = app;
    this.signal = signal;
    this.paused = false;
    /** @type {any[]} */
    this.inProgress = [];
    this.list = new RequestList(app, () => this.draw(), () => this.refresh(), signal);
    this.filters = new RequestFilters(app, signal);
    this.picker = rangePicker(signal, { any: true, also: { id: undefined } });
    this.detail = new Detail(() => this.closed(), () => app.profiles.value?.providers ?? []);
    this.table = new Table({ caption: "Requests, newest first", columns: COLUMNS, rowKey: (row) => row.request_id, empty: "", open: (row) => this.open(row) });
    this.end = listEnd({ again: () => this.list.load(), older: () => this.older(), earlier: () => this.earlier(), clear: () => change(nothing()) });
    this.table.element.append(this.end.element);
    this.note = h("span", { class: "note" });
    this.fresh = h("button", { type: "button", class: "small fresh", hidden: true, on: { click: () => this.toTop() } });
    this.pause = pauseButton((paused) => { this.paused = paused; this.refresh(); });
    const head = panel("Newest first", [this.note, this.fresh, h("div", { class: "filters" }, this.pause.element)], this.table.element);
    root.append(heading("Requests", this.picker.element), this.filters.element, this.filters.chips, h("div", { class: "with-detail" }, head, this.detail.element));
  }

  /** @returns {() => void} */
  follow() {
    const refresh = paced(() => this.refresh(), this.signal);
    this.app.feed.on("usage", refresh, this.signal);
    this.table.element.addEventListener("scroll", paced(() => this.scrolled(), this.signal, 100), { signal: this.signal });
    poll(() => this.pollProgress(), () => PROGRESS_SECONDS, this.signal);
    this.addressChanged();
    return () => this.addressChanged();
  }

  async addressChanged() {
    const { query } = place();
    this.picker.show(query);
    this.filters.show(query);
    const wanted = wantedOf(query);
    if (JSON.stringify(wanted) !== JSON.stringify(this.asked)) {
      this.asked = wanted;
      this.table.element.scrollTop = 0;
      await this.list.ask(wanted);
      if (this.signal.aborted || this.asked !== wanted) return;
      this.filters.offerFrom(this.list.rows());
    }
    await this.openFromAddress(place().query);
  }

  /** Show the details that the address names: those of a row, or of the only request with an id that was sought. */
  async openFromAddress(/** @type {URLSearchParams} */ query) {
    const rows = this.rows();
    const id = query.get("request");
    if (id) {
      if (id === this.detail.key) return;
      const found = rows.find((row) => row.request_id === id) ?? (await this.lookUp(id));
      if (found && place().query.get("request") === id) this.open(found, false);
    } else if (query.get("id") && rows.length === 1) {
      this.open(rows[0], true);
    } else if (this.detail.key) {
      this.detail.close();
    }
  }

  /** @param {string} id @returns {Promise<any>} */
  async lookUp(id) {
    const answer = await this.app.api.get("requests", { request_id: id, limit: 1 }, this.signal).catch(() => undefined);
    return answer?.requests[0];
  }

  /** @param {any} row @param {boolean} [takesFocus] */
  open(row, takesFocus = true) {
    this.detail.show(row, () => this.table.focusRow(row.request_id), takesFocus);
    this.table.mark(row.request_id);
    if (place().query.get("id") !== row.request_id) change({ request: row.request_id }, { quietly: true });
  }

  closed() {
    this.table.mark(undefined);
    change({ request: undefined }, { quietly: true });
  }

  async pollProgress() {
    this.list.noteProgress(await this.app.api.get("requests", { limit: 0 }, this.signal));
    const { state, problem } = this.list;
    if (state === "failed" && problem instanceof ApiError && problem.status === 0) this.list.load();
    this.refresh();
  }

  /** Show what has come, unless the reader would lose the place. */
  refresh() {
    if (!this.isHeld()) {
      this.list.merge();
      this.inProgress = this.list.rowsInProgress();
    }
    this.draw();
  }

  /** @returns {boolean} */
  isHeld() {
    return this.paused || this.list.state === "loading" || this.table.element.scrollTop > AWAY;
  }

  /** @returns {any[]} in the order of the table */
  rows() {
    return [...this.inProgress.slice(-MOST_IN_PROGRESS), ...this.list.rows()];
  }

  draw() {
    const { list, table, detail } = this;
    if (!this.paused && list.state !== "loading") this.inProgress = list.rowsInProgress();
    const completed = list.rows();
    const rows = this.rows();
    table.element.setAttribute("aria-busy", String(list.state === "loading"));
    table.setRows(rows);
    table.empty.hidden = true;
    table.mark(detail.key);
    this.keepDetail(rows);
    const waiting = `${count(list.pending.length)}${list.overflowed ? "+" : ""}`;
    this.pause.show(this.paused, this.paused && list.pending.length ? waiting : 0);
    this.fresh.hidden = this.paused || list.state === "loading" || list.pending.length === 0 || !this.isHeld();
    setText(this.fresh, `↑ ${waiting} new`);
    setText(this.note, [completed.length ? `${list.more ? "latest " : ""}${whole(completed.length)}` : "", this.running()].filter(Boolean).join(" · "));
    this.end.show({ list, shown: rows.length, isFiltered: isFiltered(list.wanted), profiles: this.app.profiles.value });
  }

  /** @returns {string} how many are in progress, of which the API names some and the table shows fewer */
  running() {
    const { list, inProgress } = this;
    const number = isFiltered(list.wanted) || list.inFlight <= list.inProgress.length ? inProgress.length : list.inFlight;
    if (number <= MOST_IN_PROGRESS) return number ? `${number} in progress` : "";
    return `${whole(number)} in progress, of which the oldest ${MOST_IN_PROGRESS} are shown`;
  }

  /** What was in progress when its details were opened has its event now. */
  keepDetail(/** @type {any[]} */ rows) {
    const row = this.detail.key && rows.find((one) => one.request_id === this.detail.key);
    if (row && this.detail.isUnfinished) this.detail.renew(row);
  }

  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.table.element;
    if (scrollTop <= AWAY) this.refresh();
    else if (scrollTop + clientHeight > scrollHeight - NEAR_END && this.list.state === "ready") this.older();
  }

  older() {
    this.list.older();
  }

  /** Go on from the oldest row with a list of its own, which the address names. */
  earlier() {
    const { wanted } = this.list;
    const since = wanted.span === undefined ? wanted.since : Math.floor(Date.now() / 1000 - wanted.span);
    const until = this.list.justAfterOldest();
    change({ range: undefined, since: since === undefined ? undefined : String(since), until: until && String(Date.parse(until) / 1000), request: undefined });
  }

  toTop() {
    this.table.element.scrollTop = 0;
    this.refresh();
    this.table.element.focus({ preventScroll: true });
  }
}
