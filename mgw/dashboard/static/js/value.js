/** A value that tells its listeners when it changes, until their signal is aborted. */

/** @template T */
export class Value {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<(value: T) => void>} */
    this.listeners = new Set();
  }

  /** @param {T} value */
  set(value) {
    this.value = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  /**
   * Call the listener now and at each change.
   * @param {(value: T) => void} listener
   * @param {AbortSignal} signal
   */
  watch(listener, signal) {
    if (signal.aborted) return;
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener), { once: true });
    listener(this.value);
  }
}
