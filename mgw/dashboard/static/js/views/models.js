/** Models: the aliases and the catalog, with a search. */

import { h, setText } from "../dom.js";
import { heading, panel, searchBox } from "../controls.js";
import { UNKNOWN, whole } from "../format.js";
import { chips } from "../status.js";
import { Table } from "../table.js";

const MOST_ROWS = 300;
const SHOWN = new Set(["id", "provider", "upstream_model", "capabilities"]);

/** @type {import("../table.js").Column[]} */
const COLUMNS = [
  { key: "id", label: "Model", wide: true, sort: (row) => row.id, cell: (row) => h("code", {}, row.id) },
  { key: "provider", label: "Provider", sort: (row) => row.provider, cell: (row) => row.provider ?? UNKNOWN },
  { key: "upstream", label: "Upstream model", minor: true, wraps: true, sort: (row) => row.upstream_model, cell: (row) => h("span", { dir: "auto" }, row.upstream_model ?? UNKNOWN) },
  { key: "capabilities", label: "Capabilities", minor: true, wraps: true, cell: (row) => h("div", {}, chips(row.capabilities), h("span", { class: "aside" }, furtherFacts(row))) },
];

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  let words = "";
  const search = searchBox("Search models", "Name, provider…", (value) => { words = value; draw(); });
  const note = h("span", { class: "note" });
  const table = new Table({ caption: "Models", columns: COLUMNS, rowKey: (row) => `${row.provider} ${row.id}`, empty: "", sorted: { key: "id", down: false } });
  const aliases = new Table({
    caption: "Aliases",
    rowKey: (row) => row.name,
    empty: "No aliases configured",
    columns: [
      { key: "name", label: "Alias", cell: (row) => h("code", {}, row.name) },
      { key: "targets", label: "Targets, in order", wide: true, cell: (row) => h("ol", { class: "targets" }, row.targets.map((/** @type {string} */ target) => h("li", {}, h("code", {}, target)))) },
    ],
  });
  const aliased = panel("Aliases", [], aliases.element);
  aliased.classList.add("aliases");
  root.append(heading("Models"), aliased, panel("Catalog", [note, h("div", { class: "filters" }, search)], table.element));

  function draw() {
    const profiles = app.profiles.value;
    if (!profiles) return;
    const fitting = profiles.models.filter((/** @type {any} */ row) => fits(row, words));
    table.setEmpty(profiles.models.length ? "No models match the search" : "The catalog is empty. Models that are not listed can still be requested as provider/model.");
    table.setRows(fitting.slice(0, MOST_ROWS));
    const all = fitting.length === profiles.models.length ? whole(fitting.length) : `${whole(fitting.length)} of ${whole(profiles.models.length)}`;
    setText(note, fitting.length > MOST_ROWS ? `${all}; showing the first ${MOST_ROWS}, search to find others` : all);
    aliases.setRows(profiles.aliases);
  }
  app.profiles.watch(draw, signal);
}

/** @param {any} row @param {string} words @returns {boolean} */
function fits(row, words) {
  const texts = [row.id, row.provider, row.upstream_model, ...(row.capabilities ?? [])];
  return words.split(/\s+/).every((word) => texts.some((text) => text?.toLowerCase().includes(word)));
}

/** @param {any} row @returns {string} */
function furtherFacts(row) {
  return Object.entries(row)
    .filter(([name, value]) => !SHOWN.has(name) && ["string", "number", "boolean"].includes(typeof value))
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? whole(value) : value}`)
    .join(", ");
}
