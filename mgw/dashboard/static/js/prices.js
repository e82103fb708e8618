/** Prices of a model as a table shows them: what most pay first, the rest on demand. */

import { h } from "./dom.js";
import { UNKNOWN } from "./format.js";

/** @type {Record<string, string>} the parts of a price, and what they are the price of */
const PARTS = {
  input: "million input tokens", output: "million output tokens", cache_read: "million tokens read from the cache", cache_write: "million tokens written to the cache",
  reasoning: "million reasoning tokens", per_image: "image", per_minute: "minute", per_million_characters: "million characters",
};
const USD = new Intl.NumberFormat("en", { maximumFractionDigits: 9 });

/** @param {number} price @returns {string} */
const usd = (price) => `$${USD.format(price)}`;

/** @param {any} row of the catalog @returns {number | undefined} to sort by */
export function priceOf({ price }) {
  return price && (price.input ?? price.output ?? price.per_image ?? price.per_minute ?? price.per_million_characters);
}

/** @param {any} row of the catalog @returns {Node | string} */
export function priceCell({ price }) {
  if (!price) return UNKNOWN;
  const title = Object.entries(PARTS).filter(([part]) => price[part] !== undefined).map(([part, of]) => `${usd(price[part])} per ${of}`).join("\n");
  return h("span", { title }, inShort(price));
}

/** @param {any} price @returns {string} */
function inShort(price) {
  const tokens = [price.input, price.output].filter((value) => value !== undefined).map(usd).join(" / ");
  if (tokens) return tokens;
  if (price.per_image !== undefined) return `${usd(price.per_image)} an image`;
  return price.per_minute === undefined ? `${usd(price.per_million_characters)} per 1M characters` : `${usd(price.per_minute)} a minute`;
}
