/** The groups of a range, below the charts. */

import { h, setText } from "../dom.js";
import { keyOf } from "../chart_data.js";
import { panel } from "../controls.js";
import { figureColumns } from "../figures.js";
import { FILTERS, requestsLink } from "../links.js";
import { GROUPINGS } from "../names.js";
import { place } from "../router.js";
import { Table } from "../table.js";

const MOST_ROWS = 200;

/** @returns {{ element: HTMLElement, show: (groups: any[], by: string, colours: Map<string, string>, nameOf: (key: string | undefined) => import("../names.js").Name) => void }} */
export function groupsTable() {
  const table = new Table({
    caption: "Groups",
    empty: "No requests in this period. Choose a longer one, or send a request.",
    rowKey: ({ by, group }) => `${by} ${keyOf(group)}`,
    sorted: { key: "requests", down: true },
    columns: [
      { key: "name", label: "Name", wide: true, sort: ({ name }) => name.label, cell: named },
      ...figureColumns(({ group }) => group, [
        ["requests"], ["answered", 2], ["failed"], ["rejected", 5], ["aborted", 4], ["in", 3], ["out", 3], ["cache", 1], ["cost"],
        ["p50", 6, "Latency p50"], ["p95", undefined, "Latency p95"], ["ttft50", 2], ["ttft95", 1],
      ]),
    ],
  });
  const element = panel("Groups", [], table.element);
  element.classList.add("groups");
  const title = /** @type {Element} */ (element.querySelector("h2"));
  const note = h("span", { class: "note" });
  title.after(note);
  return {
    element,
    show: (groups, by, colours, nameOf) => {
      const words = GROUPINGS.find(([name]) => name === by)?.[1] ?? by;
      setText(title, `By ${words.toLowerCase()}`);
      setText(note, groups.length > MOST_ROWS ? `top ${MOST_ROWS} of ${groups.length} by requests` : "");
      const first = [...groups].sort((one, other) => other.requests - one.requests).slice(0, MOST_ROWS);
      const range = String(rangeOf(place().query));
      table.setRows(first.map((group) => ({ by, group, name: nameOf(group.key), colour: colours.get(keyOf(group)), range })));
    },
  };
}

/** @param {URLSearchParams} query @returns {URLSearchParams} */
function rangeOf(query) {
  const found = new URLSearchParams();
  for (const name of ["range", "since", "until"]) if (query.get(name)) found.set(name, String(query.get(name)));
  return found;
}

/** @param {any} row @returns {HTMLElement} with a link to its requests, if they can be told apart */
function named({ by, group, name, colour, range }) {
  const swatch = h("span", { class: "swatch" });
  swatch.style.setProperty("--colour", `var(${colour ?? "--line-rest"})`);
  const isLinked = FILTERS.includes(by) && group.key !== undefined && group.key !== "other";
  const text = isLinked ? h("a", { href: requestsLink({ [by]: String(group.key) }, new URLSearchParams(range)), dir: "auto", title: name.title }, name.label) : h("span", { dir: "auto", title: name.title }, name.label);
  return h("span", { class: "named" }, swatch, text);
}
