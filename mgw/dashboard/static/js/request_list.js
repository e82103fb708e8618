/** The requests that a view shows: pages of the past, newest first, and on top of them what the feed brings. */

import { fits, parameters } from "./request_filter.js";

/** So many completed requests are held and shown at most: the page must stay quick, and lead to older ones otherwise. */
export const MOST_ROWS = 1000;
const PAGE = 100;
/** After this, what ended just before the list was asked for is in the gateway's table. */
const CATCH_UP_MS = 2000;

/** @typedef {import("./request_filter.js").Wanted} Wanted */

export class RequestList {
  /**
   * @param {import("./main.js").App} app
   * @param {() => void} changed called when something else is to be shown
   * @param {() => void} arrived called when something is to be merged, unless the reader would lose the place
   * @param {AbortSignal} signal
   */
  constructor(app, changed, arrived, signal) {
    this.app = app;
    this.changed = changed;
    this.arrived = arrived;
    /** @type {Wanted} */
    this.wanted = { id: "", filters: {}, since: undefined, until: undefined, span: undefined };
    /** @type {Map<string, any>} by request_id, in no order */
    this.events = new Map();
    /** What the feed brought and is not shown yet, oldest first. @type {any[]} */
    this.pending = [];
    /** Whether more came than is held. */
    this.overflowed = false;
    /** @type {any[]} */
    this.inProgress = [];
    this.inFlight = 0;
    this.source = "";
    /** @type {"loading" | "ready" | "failed"} */
    this.state = "loading";
    /** @type {Error | undefined} */
    this.problem = undefined;
    /** Whether there are older ones, and the API's mark of where they begin; without a mark, the oldest row is it. */
    this.more = false;
    /** @type {string | undefined} */
    this.cursor = undefined;
    this.asked = new AbortController();
    this.signal = signal;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.catchUpTimer = undefined;
    app.feed.on("usage", (event) => this.add(event), signal);
    app.feed.on("reset", () => this.load(), signal);
    signal.addEventListener("abort", () => { this.asked.abort(); clearTimeout(this.catchUpTimer); }, { once: true });
  }

  /** @param {Wanted} wanted @returns {Promise<void>} */
  ask(wanted) {
    this.wanted = wanted;
    this.pending = [];
    this.more = false;
    this.events = new Map([...this.events].filter(([, event]) => this.isWanted(event)));
    return this.load();
  }

  /** Begin again with the newest; what is shown stays until the answer is there. */
  async load() {
    const asked = this.restart();
    clearTimeout(this.catchUpTimer);
    try {
      const pages = await Promise.all(this.questions().map((query) => this.app.api.get("requests", query, asked.signal)));
      this.events.clear();
      this.pending = [];
      this.overflowed = false;
      this.take(pages[0]);
      for (const page of pages.slice(1)) this.keep(page.requests);
      this.noteProgress(pages[0]);
      this.pending.push(...this.app.recent.events.newestFirst().reverse().filter((event) => this.isWanted(event)));
      this.merge();
      this.catchUpTimer = setTimeout(() => this.catchUp(this.wanted), CATCH_UP_MS);
    } catch (error) {
      this.fail(error, asked);
    }
    if (!asked.signal.aborted) this.changed();
  }

  /**
   * Ask once more for the newest: the gateway writes events down a moment after its feed has told of them, so what
   * ended just before the page was opened came neither from the one nor from the other.
   * @param {Wanted} wanted
   */
  async catchUp(wanted) {
    const pages = await Promise.all(this.questions().map((query) => this.app.api.get("requests", query, this.signal))).catch(() => []);
    if (wanted !== this.wanted || this.signal.aborted) return;
    const found = pages.flatMap(({ requests }) => requests).filter(({ request_id }) => !this.events.has(request_id));
    if (!found.length) return;
    this.pending.push(...found);
    this.arrived();
  }

  /** @returns {Record<string, string | number | undefined>[]} an id may be the gateway's or the provider's */
  questions() {
    const { id } = this.wanted;
    if (id) return [{ request_id: id, limit: PAGE }, { upstream_request_id: id, limit: PAGE }];
    return [{ ...parameters(this.wanted, Date.now() / 1000), limit: PAGE }];
  }

  /** The next page, of older ones. */
  async older() {
    if (!this.more || this.state === "loading" || this.isFull()) return;
    const asked = this.restart();
    const query = { ...this.questions()[0], ...(this.cursor === undefined ? { until: this.justAfterOldest() } : { cursor: this.cursor }) };
    try {
      this.take(await this.app.api.get("requests", query, asked.signal));
    } catch (error) {
      this.fail(error, asked);
    }
    if (!asked.signal.aborted) this.changed();
  }

  /** @returns {AbortController} of the question that takes the place of the last */
  restart() {
    this.asked.abort();
    this.asked = new AbortController();
    this.state = "loading";
    this.problem = undefined;
    this.changed();
    return this.asked;
  }

  /** @param {unknown} error @param {AbortController} asked */
  fail(error, asked) {
    if (asked.signal.aborted) return;
    this.state = "failed";
    this.problem = error instanceof Error ? error : new Error(String(error));
  }

  /** @param {any} page */
  take(page) {
    this.state = "ready";
    this.source = page.source;
    this.cursor = page.next;
    this.more = page.next !== undefined;
    this.keep(page.requests);
  }

  /** @param {any[]} events */
  keep(events) {
    for (const event of events) this.events.set(event.request_id, event);
  }

  /** @param {any} answer of the API: what is in progress is the same for all filters */
  noteProgress({ in_progress, in_flight }) {
    this.inProgress = in_progress;
    this.inFlight = in_flight;
  }

  /** @param {any} event of the feed */
  add(event) {
    if (!this.isWanted(event)) return;
    this.pending.push(event);
    if (this.pending.length < 2 * MOST_ROWS) return;
    this.pending = this.pending.slice(-MOST_ROWS);
    this.overflowed = true;
  }

  /** @param {any} event @returns {boolean} */
  isWanted(event) {
    return fits(event, this.wanted, Date.now() / 1000);
  }

  /** Show what the feed brought. What began before the oldest row that is shown waits for its page. */
  merge() {
    if (this.overflowed) this.startFromPending();
    const oldest = this.more ? this.oldest() : undefined;
    for (const event of this.pending) {
      if (oldest === undefined || isNewer(event, oldest)) this.events.set(event.request_id, event);
    }
    this.pending = [];
    this.cut();
  }

  /** More came than is held: what was shown does not follow on it. */
  startFromPending() {
    this.overflowed = false;
    this.events.clear();
    this.more = false;
    this.keep(this.pending);
    this.more = true;
    this.cursor = undefined;
  }

  /** Leave the oldest rows out where there are too many: they are read again when somebody asks for them. */
  cut() {
    if (this.events.size <= MOST_ROWS) return;
    this.events = new Map(this.rows().slice(0, MOST_ROWS).map((event) => [event.request_id, event]));
    this.more = true;
    this.cursor = undefined;
  }

  /** @returns {any[]} newest first */
  rows() {
    return [...this.events.values()].sort((one, other) => (isNewer(one, other) ? -1 : 1));
  }

  /** @returns {any[]} in progress, newest first; those whose event has come are not */
  rowsInProgress() {
    const ended = new Set([...this.events.keys(), ...this.pending.map(({ request_id }) => request_id)]);
    return this.inProgress.filter((row) => !ended.has(row.request_id) && this.isWanted(row)).reverse();
  }

  /** @returns {any} */
  oldest() {
    return this.rows().at(-1);
  }

  /** @returns {boolean} whether a further page would be too much */
  isFull() {
    return this.events.size + PAGE > MOST_ROWS;
  }

  /** @returns {string | undefined} a time that is later than the oldest row by the least */
  justAfterOldest() {
    const oldest = this.oldest();
    return oldest && new Date(Date.parse(oldest.time) + 1).toISOString();
  }
}

/** @param {any} one @param {any} other @returns {boolean} as the API orders them: by time, then by id */
function isNewer(one, other) {
  return one.time === other.time ? one.request_id > other.request_id : one.time > other.time;
}
