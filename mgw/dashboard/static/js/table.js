/**
 * A table that is kept up to date: rows have keys and stay where they are in the document, columns can sort.
 *
 * A table is never wider than its panel. Where it would be, columns give way in the order of their `priority`, 1
 * first; one without a priority is always in sight. In the room of a phone each row is a card with all of its cells.
 */

import { h, fill, setText } from "./dom.js";
import { UNKNOWN } from "./format.js";

/** Of longer texts the end may be hidden. */
const LONG = 20;
/** In less room than this, in pixels of a page with the usual type, rows are cards. */
const CARDS = 520;

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {(row: any) => Node | string} cell
 * @property {(row: any) => number | string | undefined} [sort] absent: the column does not sort
 * @property {boolean} [numeric]
 * @property {number} [priority] 1 to 6: it gives way where there is no room for all, 1 first
 * @property {boolean} [minor] the same as the priority 1
 * @property {boolean} [wide] may take the room that is left
 * @property {boolean} [wraps] may have several lines
 */
/**
 * @typedef {object} Settings
 * @property {string} caption
 * @property {Column[]} columns
 * @property {(row: any) => string} rowKey
 * @property {string} empty what an empty table says
 * @property {{ key: string, down: boolean }} [sorted]
 * @property {number} [most] how many rows are shown at most: the first ones in their order
 * @property {(row: any) => void} [open] the first cell becomes a button that calls it
 */

export class Table {
  /** @param {Settings} settings */
  constructor(settings) {
    this.settings = settings;
    this.sorted = settings.sorted;
    /** @type {any[]} */
    this.rows = [];
    /** @type {Map<string, { element: HTMLTableRowElement, text: string, row: any }>} */
    this.shown = new Map();
    this.body = h("tbody", { role: "rowgroup" });
    this.heads = settings.columns.map((column) => this.head(column));
    this.empty = h("p", { class: "empty", hidden: true }, settings.empty);
    // roles are said, since cards are no table to the browser
    this.element = h(
      "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": settings.caption },
      h("table", { role: "table" }, h("caption", { class: "unseen" }, settings.caption), h("thead", { role: "rowgroup", class: settings.columns.some(({ sort }) => sort) ? "sorts" : undefined }, h("tr", { role: "row" }, this.heads)), this.body),
      this.empty,
    );
    this.priorities = [...new Set(settings.columns.flatMap((column) => priorityOf(column) ?? []))].sort((one, other) => one - other);
    /** How many of the priorities have given way. */
    this.given = 0;
    new ResizeObserver(() => this.fit(true)).observe(this.element);
    if (settings.open) this.body.addEventListener("click", (/** @type {MouseEvent} */ event) => this.click(event));
    if (settings.open) this.body.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.move(event));
    this.markHeads();
  }

  /** @param {Column} column @returns {HTMLElement} */
  head(column) {
    const { key, label, sort } = column;
    const content = sort ? h("button", { type: "button", class: "sort", on: { click: () => this.sortBy(key) } }, label, h("span", { class: "arrow", "aria-hidden": "true" })) : label;
    return h("th", { scope: "col", role: "columnheader", "data-key": key, class: classes(column) }, content);
  }

  /** @param {any[]} rows */
  setRows(rows) {
    this.rows = rows;
    this.draw();
  }

  /** @param {string} text */
  setEmpty(text) {
    setText(this.empty, text);
  }

  /** @param {string} key */
  sortBy(key) {
    const down = this.sorted?.key === key ? !this.sorted.down : true;
    this.sorted = { key, down };
    this.markHeads();
    this.draw();
  }

  markHeads() {
    for (const head of this.heads) {
      const sorts = this.settings.columns.find(({ key }) => key === head.dataset.key)?.sort;
      const isIt = head.dataset.key === this.sorted?.key;
      if (sorts) head.setAttribute("aria-sort", isIt ? (this.sorted?.down ? "descending" : "ascending") : "none");
    }
  }

  /** @returns {any[]} */
  inOrder() {
    const sort = this.settings.columns.find(({ key }) => key === this.sorted?.key)?.sort;
    if (!sort) return this.rows;
    const sign = this.sorted?.down ? -1 : 1;
    return [...this.rows].sort((one, other) => compare(sort(one), sort(other), sign));
  }

  /**
   * Give way to what has no room.
   * @param {boolean} anew whether columns that gave way may come back
   */
  fit(anew) {
    const room = this.element.clientWidth;
    if (room === 0) return;
    const isCards = room < CARDS * (parseFloat(getComputedStyle(this.element).fontSize) / 14);
    this.element.classList.toggle("as-cards", isCards);
    if (anew || isCards) this.give(0);
    while (!isCards && this.given < this.priorities.length && this.element.scrollWidth > this.element.clientWidth) this.give(this.given + 1);
  }

  /** @param {number} count of the priorities that give way */
  give(count) {
    if (count === this.given) return;
    this.given = count;
    this.priorities.forEach((priority, index) => this.element.classList.toggle(`without-${priority}`, index < count));
  }

  draw() {
    const rows = this.inOrder().slice(0, this.settings.most);
    const isFirst = this.shown.size === 0;
    const keys = new Set(rows.map(this.settings.rowKey));
    for (const [key, { element }] of this.shown) {
      if (keys.has(key)) continue;
      if (element.contains(document.activeElement)) this.element.focus();
      element.remove();
      this.shown.delete(key);
    }
    /** @type {Element | null} */
    let at = this.body.firstElementChild;
    for (const row of rows) {
      const element = this.rowElement(row);
      if (element === at) at = at.nextElementSibling;
      else this.body.insertBefore(element, at);
    }
    this.empty.hidden = rows.length > 0;
    if (this.settings.open) this.keepOneInTabOrder();
    this.fit(isFirst);
  }

  /** @param {any} row @returns {HTMLTableRowElement} */
  rowElement(row) {
    const key = this.settings.rowKey(row);
    const known = this.shown.get(key);
    if (known && known.row === row) return known.element;
    const text = JSON.stringify(row);
    if (known && known.text === text) {
      known.row = row;
      return known.element;
    }
    /** @type {HTMLTableRowElement} */
    const element = known ? known.element : h("tr", { "data-row": key, role: "row" }, this.settings.columns.map((column) => h("td", { class: classes(column), role: "cell", "data-label": column.label, dir: column.wide ? "auto" : undefined })));
    this.shown.set(key, { element, text, row });
    this.settings.columns.forEach(({ cell }, index) => this.fillCell(element.children[index], cell(row), index));
    return element;
  }

  /** @param {Element} td @param {Node | string} content @param {number} index of the column */
  fillCell(td, content, index) {
    td.classList.toggle("unknown", content === UNKNOWN);
    if (index === 0 && this.settings.open) {
      const button = td.querySelector("button") ?? h("button", { type: "button", class: "row", tabindex: "-1" });
      fill(button, content);
      if (!button.isConnected) fill(td, button);
    } else if (typeof content === "string") {
      setText(td, content);
      /** @type {HTMLElement} */ (td).title = content.length > LONG ? content : "";
    } else {
      fill(td, content);
    }
  }

  /** @returns {HTMLButtonElement[]} */
  buttons() {
    return [...this.body.querySelectorAll("button.row")];
  }

  /** One row of many is reached with Tab; the arrow keys lead to the others. */
  keepOneInTabOrder() {
    const now = this.body.querySelector('button.row[tabindex="0"]');
    if (now && (now === document.activeElement || now === this.body.querySelector("button.row"))) return;
    now?.setAttribute("tabindex", "-1");
    this.body.querySelector("button.row")?.setAttribute("tabindex", "0");
  }

  /** @param {MouseEvent} event */
  click(event) {
    const tr = /** @type {Element} */ (event.target).closest("tr");
    const known = this.shown.get(tr?.getAttribute("data-row") ?? "");
    if (!known || (getSelection()?.toString() ?? "") !== "") return;
    this.settings.open?.(known.row);
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 }[event.key];
    const buttons = this.buttons();
    const from = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (steps === undefined || from < 0) return;
    event.preventDefault();
    const target = buttons[Math.max(0, Math.min(buttons.length - 1, from + steps))];
    buttons[from].tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }

  /** @param {string | undefined} key of the row that is open elsewhere */
  mark(key) {
    for (const [other, { element }] of this.shown) element.classList.toggle("current", other === key);
  }

  /** @param {string} key */
  focusRow(key) {
    (this.shown.get(key)?.element.querySelector("button.row") ?? this.element).focus();
  }
}

/** @param {Column} column @returns {string | undefined} */
function classes(column) {
  const names = ["numeric", "wide", "wraps"].filter((name) => /** @type {any} */ (column)[name]);
  const priority = priorityOf(column);
  return [...names, priority && `gives-${priority}`].filter(Boolean).join(" ") || undefined;
}

/** @param {Column} column @returns {number | undefined} */
function priorityOf({ priority, minor }) {
  return priority ?? (minor ? 1 : undefined);
}

/**
 * @param {number | string | undefined} one
 * @param {number | string | undefined} other
 * @param {number} sign
 * @returns {number} what is unknown comes last, whichever way
 */
function compare(one, other, sign) {
  if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
  if (typeof one === "string" || typeof other === "string") return sign * String(one).localeCompare(String(other));
  return sign * (one - other);
}
