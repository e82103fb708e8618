/** The last so many items: what is older is forgotten, so that a page that is open for days does not grow. */

/** @template T */
export class Ring {
  /** @param {number} capacity */
  constructor(capacity) {
    this.capacity = capacity;
    /** @type {T[]} */
    this.slots = [];
    this.next = 0;
    /** How many were ever added. */
    this.added = 0;
  }

  /** @param {T} item */
  push(item) {
    this.slots[this.next] = item;
    this.next = (this.next + 1) % this.capacity;
    this.added += 1;
  }

  clear() {
    this.slots = [];
    this.next = 0;
  }

  /** @returns {T[]} newest first */
  newestFirst() {
    return [...this.slots.slice(0, this.next).reverse(), ...this.slots.slice(this.next).reverse()];
  }
}
