/** Limits that last longer than a minute, with what is used of each, and the gateway keys with names. */

import { heading, panel, searchBox } from "../controls.js";
import { fill, h, setText } from "../dom.js";
import { UNKNOWN, counted, dollars, percent, time, whole } from "../format.js";
import { clientName } from "../names.js";
import { poll } from "../pace.js";
import { Table } from "../table.js";

const SECONDS = 5;
/** From this share on, little is left. */
const HIGH = 0.8;
const MONEY = "usd_";
/** More rows would keep a browser busy: there may be ten thousand keys. */
const MOST_ROWS = 500;
/** Of longer names of clients the middle is left out. */
const LONGEST = 36;
/** Shows a holder that is all of a group's clients, or one of them. */
const GROUP = "group:";

/** @param {any} row @returns {number | undefined} of what the row allows, what is used and held */
function shareOf({ used, reserved, max }) {
  return max === undefined || max === 0 ? undefined : (used + reserved) / max;
}

/** @param {any} row @param {number} amount @returns {string} in the unit of the row */
function amount({ limit }, amount) {
  return limit.startsWith(MONEY) ? dollars(amount) : whole(amount);
}

/** @param {string} limit as usd_per_month @returns {string} as US dollars per month */
export function limitWords(limit) {
  const words = limit.replace(/^usd_/, "US dollars_").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {string} name @returns {string} without the middle of a long one: what it is a client of stands behind it */
function shortened(name) {
  const letters = [...name];
  return letters.length > LONGEST ? `${letters.slice(0, 20).join("")}…${letters.slice(-12).join("")}` : name;
}

/** @param {string} holder @returns {HTMLElement} */
function holder(holder) {
  const [shared, one] = holder.split(/\/(.*)/s, 2);
  const what = shared === "gateway" ? "All clients" : shared.startsWith(GROUP) ? `Group ${shared.slice(GROUP.length)}` : clientName(shared).label;
  const words = one === undefined ? what : `${shortened(clientName(one).label)} (${shared === "gateway" ? "each client" : `each of ${what.toLowerCase()}`})`;
  return h("span", { dir: "auto", title: holder }, words);
}

/** @param {any} row @returns {HTMLElement | string} a bar, and the share in words */
function bar(row) {
  const share = shareOf(row);
  if (share === undefined) return UNKNOWN;
  const level = share >= 1 ? "used-up" : share >= HIGH ? "high" : "low";
  const used = h("span", {});
  const held = h("span", { class: "held" });
  used.style.setProperty("--share", String(Math.min(1, row.used / row.max)));
  held.style.setProperty("--share", String(Math.min(1 - Math.min(1, row.used / row.max), row.reserved / row.max)));
  return h("span", { class: `limit-bar ${level}` }, h("span", { class: "track", "aria-hidden": "true" }, used, held), h("span", { class: "share" }, percent(share)));
}

/** @param {any} row @returns {HTMLElement} */
function used(row) {
  const of = row.max === undefined ? "" : ` of ${amount(row, row.max)}`;
  return h("span", { title: `${row.used}${row.max === undefined ? "" : ` of ${row.max}`}` }, `${amount(row, row.used)}${of}`);
}

/** @type {import("../table.js").Column[]} */
const LIMITS = [
  { key: "holder", label: "Holder", wide: true, wraps: true, sort: (row) => row.holder, cell: (row) => holder(row.holder) },
  { key: "limit", label: "Limit", wraps: true, sort: (row) => row.limit, cell: (row) => h("span", { title: row.limit }, limitWords(row.limit)) },
  { key: "share", label: "Share used", sort: shareOf, cell: bar },
  { key: "used", label: "Used", numeric: true, sort: (row) => row.used, cell: used },
  { key: "reserved", label: "Reserved", numeric: true, priority: 2, sort: (row) => row.reserved, cell: (row) => amount(row, row.reserved) },
  { key: "period", label: "Period", priority: 1, sort: (row) => row.period, cell: (row) => row.period },
  { key: "resets", label: "Resets", sort: (row) => row.resets, cell: (row) => (row.resets === undefined ? "never" : time(row.resets)) },
];

/** @type {import("../table.js").Column[]} */
const KEYS = [
  { key: "name", label: "Name", wide: true, sort: (row) => row.name, cell: (row) => row.name },
  { key: "state", label: "State", sort: (row) => row.state, cell: (row) => h("span", { class: row.state === "active" ? "" : "bad" }, row.state) },
  { key: "groups", label: "Groups", sort: (row) => (row.groups ?? []).join(), cell: (row) => row.groups?.join(", ") ?? UNKNOWN },
  { key: "expires", label: "Expires", sort: (row) => row.expires, cell: (row) => time(row.expires) },
  { key: "previous_expires", label: "Previous key until", priority: 1, sort: (row) => row.previous_expires, cell: (row) => time(row.previous_expires) },
  { key: "where", label: "Defined in", priority: 1, sort: (row) => row.where, cell: (row) => (row.where === "config" ? "configuration" : "key file") },
];

/** @param {number} count @param {string} one @param {string} several @returns {string} how many there are, and are shown */
function shownOf(count, one, several) {
  const all = counted(count, one, several);
  return count > MOST_ROWS ? `${whole(MOST_ROWS)} of ${all}` : all;
}

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  const limits = new Table({ caption: "Limits", most: MOST_ROWS, columns: LIMITS, rowKey: (row) => `${row.holder} ${row.limit} ${row.period} ${row.max}`, sorted: { key: "share", down: true }, empty: "No limits longer than a minute. Limits on requests, tokens and money per day, week or month appear here." });
  const keys = new Table({ caption: "Gateway keys", most: MOST_ROWS, columns: KEYS, rowKey: (row) => `${row.where} ${row.name}`, empty: "No gateway keys with names" });
  const note = h("span", { class: "note" });
  const keysNote = h("span", { class: "note" });
  const upMost = h("p", { class: "notice warn", role: "status", hidden: true });
  /** @type {{ limits: any[], omitted: number, keys: any[] }} */
  let found = { limits: [], omitted: 0, keys: [] };
  let wanted = "";
  /** What the gateway was asked to look for. */
  let asked = "";
  const search = searchBox("Filter by name", "Filter by name", (text) => {
    wanted = text;
    draw();
    if (found.omitted || asked) soon(0); // the gateway has rows that are not here
  });
  root.append(heading("Limits", search), upMost, panel("Limits", [note], limits.element), panel("Gateway keys", [keysNote], keys.element));

  function draw() {
    const rows = found.limits.filter((row) => row.holder.toLowerCase().includes(wanted));
    limits.setRows(rows);
    const named = found.keys.filter((row) => row.name.toLowerCase().includes(wanted));
    keys.setRows(named);
    const usedUp = found.limits.filter((row) => (shareOf(row) ?? 0) >= 1).length;
    setText(note, shownOf(rows.length, "row", "rows") + (found.omitted ? `; ${counted(found.omitted, "row")} of clients with a smaller share ${found.omitted === 1 ? "is" : "are"} not here: filter by name` : ""));
    setText(keysNote, shownOf(named.length, "key", "keys"));
    upMost.hidden = usedUp === 0;
    if (usedUp) fill(upMost, `${counted(usedUp, "limit is", "limits are")} used up.`);
  }

  const soon = poll(async () => {
    const sought = wanted;
    const [one, other] = await Promise.all([app.api.get("limits", { search: sought || undefined }, signal), app.api.get("keys", {}, signal)]);
    asked = sought;
    found = { limits: one.limits, omitted: one.omitted ?? 0, keys: other.keys };
    draw();
  }, () => SECONDS, signal);
}
