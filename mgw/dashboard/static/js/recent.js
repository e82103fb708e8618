/** What the feed brought lately: the last ended requests, and how many ended in each of the last seconds. */

import { paced } from "./pace.js";
import { Ring } from "./ring.js";

export const KEPT = 500;
export const SECONDS = 60;
const REPEATED_MS = 1500;

/** Events newest first, and a count for each second. */
export class Recent {
  /**
   * @param {import("./feed.js").Feed} feed
   * @param {AbortSignal} signal
   */
  constructor(feed, signal) {
    /** @type {Ring<any>} */
    this.events = new Ring(KEPT);
    /** Ended requests by second of the Unix time, modulo {@link SECONDS}. */
    this.buckets = Array.from({ length: SECONDS + 2 }, () => ({ second: 0, ended: 0, failed: 0, rejected: 0 }));
    /** When the counting began, in milliseconds. */
    this.since = Date.now();
    /** After a reset comes first what is held, which ended long ago. */
    this.countFrom = 0;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    const tell = paced(() => { for (const listener of [...this.listeners]) listener(); }, signal);
    feed.on("usage", (event) => { this.add(event); tell(); }, signal);
    feed.on("reset", () => {
      this.events.clear();
      this.countFrom = Date.now() + REPEATED_MS;
      tell();
    }, signal);
  }

  /** @param {any} event */
  add(event) {
    this.events.push(event);
    if (Date.now() < this.countFrom) return;
    const second = Math.floor(Date.now() / 1000);
    const bucket = this.buckets[second % this.buckets.length];
    if (bucket.second !== second) Object.assign(bucket, { second, ended: 0, failed: 0, rejected: 0 });
    bucket.ended += 1;
    if (event.status === "upstream_error") bucket.failed += 1;
    if (event.status === "rejected") bucket.rejected += 1;
  }

  /**
   * @returns {{ ended: number, failed: number, rejected: number }[]} the last whole seconds, oldest first
   */
  lastSeconds() {
    const now = Math.floor(Date.now() / 1000);
    return Array.from({ length: SECONDS }, (_, index) => {
      const second = now - SECONDS + index;
      const bucket = this.buckets[second % this.buckets.length];
      return bucket.second === second ? bucket : { ended: 0, failed: 0, rejected: 0 };
    });
  }

  /** @returns {number} ended requests a second, of the last seconds or since the counting began */
  rate() {
    const ended = this.lastSeconds().reduce((total, second) => total + second.ended, 0);
    return ended / Math.min(SECONDS, Math.max(1, Math.floor((Date.now() - this.since) / 1000)));
  }

  /**
   * @param {() => void} listener called a few times a second at most
   * @param {AbortSignal} signal
   */
  watch(listener, signal) {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener), { once: true });
    listener();
  }
}
