/** What the figures lack, and what to do about it: requests without a cost, and streams without token counts. */

import { h, fill, setText } from "../dom.js";
import { counted, whole } from "../format.js";

const MOST_MODELS = 3;

/** @typedef {{ label: string, count: number, advice: string, page: string }} Gap */

/**
 * @param {any} totals
 * @param {any[] | undefined} models groups by model, if they are known
 * @param {boolean} hasPrices whether prices are configured
 * @returns {Gap[]} what there is to say: usually nothing
 */
export function gapsOf(totals, models, hasPrices) {
  const gaps = [];
  if (!hasPrices && totals.requests) gaps.push({ label: "Without a cost", count: totals.requests, advice: "No prices are configured: set prices.file or prices.rows.", page: "docs/cost.rst" });
  if (hasPrices && totals.unpriced) gaps.push({ label: "Without a cost", count: totals.unpriced, advice: adviceOnPrices(totals, models), page: "docs/cost.rst, Requests without a cost" });
  if (totals.uncounted) gaps.push({ label: "Streams without token counts", count: totals.uncounted, advice: "Clients get them with stream_options: {\"include_usage\": true}.", page: "docs/clients.rst" });
  return gaps;
}

/** @param {any} totals @param {any[] | undefined} models @returns {string} */
function adviceOnPrices(totals, models = []) {
  if (totals.unpriced <= (totals.uncounted ?? 0)) return "They have no token counts, so no price applies.";
  const names = models.filter(({ key, unpriced = 0, uncounted = 0 }) => key !== undefined && unpriced > uncounted)
    .sort((one, other) => other.unpriced - one.unpriced).map(({ key }) => key);
  if (!names.length) return "Add a row to prices for each model that you use.";
  const more = names.length > MOST_MODELS ? ` and ${counted(names.length - MOST_MODELS, "more model", "more models")}` : "";
  return `Add a row to prices for ${names.slice(0, MOST_MODELS).join(", ")}${more}.`;
}

/** @returns {{ element: HTMLElement, show: (gaps: Gap[]) => void }} */
export function gapTiles() {
  const element = h("dl", { class: "gaps", "aria-label": "What the figures lack", hidden: true });
  let drawn = "";
  return {
    element,
    show: (gaps) => {
      const text = JSON.stringify(gaps);
      if (text === drawn) return;
      drawn = text;
      element.hidden = gaps.length === 0;
      fill(element, gaps.map(({ label, count, advice, page }) => {
        const value = h("dd", { class: "value" });
        setText(value, whole(count));
        return h("div", { class: "gap" }, h("dt", {}, label), value, h("dd", { class: "advice" }, advice, " ", h("span", { class: "page" }, `See ${page}`)));
      }));
    },
  };
}
