/** Numbers and times as people read them. What is unknown is a dash, never a zero. */

import { h } from "./dom.js";

export const UNKNOWN = "–";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const TWO_DIGITS = new Intl.NumberFormat("en", { maximumSignificantDigits: 2, maximumFractionDigits: 6 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** @param {number | undefined} value @returns {string} */
export function whole(value) {
  return value === undefined ? UNKNOWN : WHOLE.format(value);
}

/** @param {number | undefined} value @returns {string} whole below 10,000, then 12.3K */
export function count(value) {
  if (value === undefined) return UNKNOWN;
  return Math.abs(value) < 10_000 ? WHOLE.format(value) : SHORT.format(value);
}

/**
 * What the provider has told, or what was estimated, which a sign says.
 * @param {number | undefined} told
 * @param {number | undefined} guess
 * @param {(value: number | undefined) => string} [write]
 * @returns {string}
 */
export function approximate(told, guess, write = count) {
  return guess === undefined ? write(told) : `~${write(guess)}`;
}

/**
 * A number with the word for what is counted.
 * @param {number | undefined} value
 * @param {string} one
 * @param {string} [many]
 * @returns {string} as 1 request, 2 requests
 */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** @param {number | undefined} share @returns {string} */
export function percent(share) {
  if (share === undefined || !Number.isFinite(share)) return UNKNOWN;
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1%";
  return `${value.toFixed(value < 10 && value % 1 !== 0 ? 1 : 0)}%`;
}

/** @param {number | undefined} usd @returns {string} */
export function dollars(usd) {
  if (usd === undefined) return UNKNOWN;
  if (usd === 0) return "$0";
  if (Math.abs(usd) >= 10_000) return `$${SHORT.format(usd)}`;
  if (Math.abs(usd) >= 0.1) return `$${usd.toFixed(2)}`;
  return usd < 0.00001 ? "<$0.00001" : `$${TWO_DIGITS.format(usd)}`;
}

/** @param {number | undefined} ms @returns {string} */
export function milliseconds(ms) {
  if (ms === undefined) return UNKNOWN;
  if (ms === 0) return "0 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(2)} s`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : seconds(ms / 1000);
}

/** @param {number | undefined} value @returns {string} as 42 s, 3 min 05 s, 2 h 10 min, 4 d 3 h */
export function seconds(value) {
  if (value === undefined) return UNKNOWN;
  const whole = Math.max(0, Math.floor(value));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** @param {number | undefined} value @returns {string} */
export function bytes(value) {
  if (value === undefined) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  for (; size >= 1000 && unit < units.length - 1; unit += 1) size /= 1000;
  return `${unit === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${units[unit]}`;
}

/** @param {Date} date @returns {string} the local time, with the day unless it is today */
export function moment(date) {
  const clock = CLOCK.format(date);
  return date.toDateString() === new Date().toDateString() ? clock : `${DAY.format(date)}, ${clock}`;
}

/** @param {number} span seconds that are shown @returns {(unix: number) => string} for a point of a chart */
export function momentOfSpan(span) {
  return (unix) => {
    const date = new Date(unix * 1000);
    const clock = CLOCK.format(date);
    const short = span <= 1800 ? clock : clock.slice(0, 5);
    return span > 86_400 || date.toDateString() !== new Date().toDateString() ? `${DAY.format(date)}, ${short}` : short;
  };
}

/** @param {string | undefined} rfc3339 @returns {HTMLTimeElement | string} local, with UTC in its title */
export function time(rfc3339) {
  if (rfc3339 === undefined) return UNKNOWN;
  const date = new Date(rfc3339);
  if (Number.isNaN(date.getTime())) return rfc3339;
  return h("time", { datetime: rfc3339, title: rfc3339 }, moment(date));
}
