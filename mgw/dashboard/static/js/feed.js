/** The feed of events: one connection for the whole page, which is made again whenever it is lost. */

import { address } from "./api.js";
import { Value } from "./value.js";

/** @typedef {"usage" | "log" | "health" | "session" | "reset"} Kind */

const KINDS = /** @type {Kind[]} */ (["usage", "log", "health", "session", "reset"]);
const LONGEST_PAUSE = 30;

/** Who listens, and whether there is a connection. */
export class Feed {
  constructor() {
    /** @type {Value<"connecting" | "live" | "lost">} */
    this.state = new Value(/** @type {"connecting" | "live" | "lost"} */ ("connecting"));
    /** @type {Map<Kind, Set<(data: any) => void>>} */
    this.listeners = new Map(KINDS.map((kind) => [kind, new Set()]));
    this.failures = 0;
    /** The id of the last event, of which a part is a number that grows. */
    this.last = { start: "", number: -1 };
    /** @type {EventSource | undefined} */
    this.source = undefined;
    this.connect();
  }

  /**
   * @param {Kind} kind
   * @param {(data: any) => void} listener
   * @param {AbortSignal} signal
   */
  on(kind, listener, signal) {
    const listeners = /** @type {Set<(data: any) => void>} */ (this.listeners.get(kind));
    listeners.add(listener);
    signal.addEventListener("abort", () => listeners.delete(listener), { once: true });
  }

  connect() {
    const source = new EventSource(address("events"));
    this.source = source;
    source.addEventListener("open", () => {
      this.failures = 0;
      this.state.set("live");
    });
    source.addEventListener("error", () => {
      this.state.set("lost");
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      this.failures += 1;
      setTimeout(() => this.connect(), 1000 * Math.min(LONGEST_PAUSE, 2 ** this.failures));
    });
    for (const kind of KINDS) source.addEventListener(kind, (event) => this.receive(kind, event));
  }

  /**
   * Pass an event on, once: a connection that is made again may repeat what is known.
   * @param {Kind} kind
   * @param {MessageEvent} event
   */
  receive(kind, event) {
    if (kind === "reset") {
      this.last = { start: "", number: -1 };
    } else if (this.isKnown(event.lastEventId)) {
      return;
    }
    let data;
    try {
      data = JSON.parse(event.data);
    } catch {
      return;
    }
    for (const listener of [.../** @type {Set<(data: any) => void>} */ (this.listeners.get(kind))]) listener(data);
  }

  /** @param {string} id as `start-number` */
  isKnown(id) {
    const cut = id.lastIndexOf("-");
    const start = id.slice(0, cut);
    const number = Number(id.slice(cut + 1));
    if (cut < 0 || !Number.isFinite(number)) return false;
    if (start === this.last.start && number <= this.last.number) return true;
    this.last = { start, number };
    return false;
  }
}
