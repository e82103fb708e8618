/** The groups of a range, beside the charts. */

import { h, setText } from "../dom.js";
import { count, dollars, milliseconds, percent } from "../format.js";
import { keyOf } from "../chart_data.js";
import { panel } from "../controls.js";
import { word } from "../status.js";
import { Table } from "../table.js";
import { cacheShare, failedShare } from "./tiles.js";

const MOST_ROWS = 200;
const TITLES = /** @type {Record<string, string>} */ ({ status: "By status", provider: "By provider", model: "By model", client: "By client" });

/** @returns {{ element: HTMLElement, show: (groups: any[], by: string, colours: Map<string, string>) => void }} */
export function groupsTable() {
  const table = new Table({
    caption: "Groups",
    empty: "No requests in this period",
    rowKey: ({ by, group }) => `${by} ${keyOf(group)}`,
    sorted: { key: "requests", down: true },
    columns: [
      { key: "name", label: "Name", wide: true, sort: ({ label }) => label, cell: ({ label, colour }) => named(label, colour) },
      { key: "requests", label: "Requests", numeric: true, sort: ({ group }) => group.requests, cell: ({ group }) => count(group.requests) },
      { key: "failed", label: "Failed", numeric: true, sort: ({ group }) => failedShare(group), cell: ({ group }) => percent(failedShare(group)) },
      { key: "in", label: "Tokens in", numeric: true, sort: ({ group }) => group.tokens_in, cell: ({ group }) => count(group.tokens_in) },
      { key: "out", label: "Tokens out", numeric: true, sort: ({ group }) => group.tokens_out, cell: ({ group }) => count(group.tokens_out) },
      { key: "cache", label: "Cache", numeric: true, minor: true, sort: ({ group }) => cacheShare(group), cell: ({ group }) => percent(cacheShare(group)) },
      { key: "cost", label: "Cost", numeric: true, sort: ({ group }) => group.cost_usd, cell: ({ group }) => dollars(group.cost_usd) },
      { key: "p50", label: "p50", numeric: true, minor: true, sort: ({ group }) => group.latency_ms_p50, cell: ({ group }) => milliseconds(group.latency_ms_p50) },
      { key: "p95", label: "p95", numeric: true, sort: ({ group }) => group.latency_ms_p95, cell: ({ group }) => milliseconds(group.latency_ms_p95) },
    ],
  });
  const element = panel("Groups", [], table.element);
  element.classList.add("groups");
  const title = /** @type {Element} */ (element.querySelector("h2"));
  const note = h("span", { class: "note" });
  title.after(note);
  return {
    element,
    show: (groups, by, colours) => {
      setText(title, TITLES[by]);
      setText(note, groups.length > MOST_ROWS ? `top ${MOST_ROWS} of ${groups.length} by requests` : "");
      const first = [...groups].sort((one, other) => other.requests - one.requests).slice(0, MOST_ROWS);
      table.setRows(first.map((group) => {
        const key = keyOf(group);
        return { by, group, label: by === "status" ? word(key) : key, colour: colours.get(key) };
      }));
    },
  };
}

/** @param {string} label @param {string | undefined} colour @returns {HTMLElement} */
function named(label, colour) {
  const swatch = h("span", { class: "swatch" });
  swatch.style.setProperty("--colour", `var(${colour ?? "--line-rest"})`);
  return h("span", { class: "named" }, swatch, h("span", { dir: "auto", title: label }, label));
}
