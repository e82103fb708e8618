/** Models: the aliases and the catalog, with prices and the traffic of a range of time, and a search. */

import { h, setText } from "../dom.js";
import { heading, panel, searchBox } from "../controls.js";
import { figureColumns } from "../figures.js";
import { UNKNOWN, whole } from "../format.js";
import { requestsLink } from "../links.js";
import { priceCell, priceOf } from "../prices.js";
import { place } from "../router.js";
import { chips } from "../status.js";
import { Table } from "../table.js";
import { followGroups } from "../usage_query.js";
import { rangePicker } from "./range_picker.js";

const MOST_ROWS = 300;
const SHOWN = new Set(["id", "provider", "upstream_model", "capabilities", "price", "group", "range"]);

/** @param {string} name as requested @param {any} row @returns {HTMLElement} a link to the requests, where there are any */
const requested = (name, row) => h("code", {}, row.group ? h("a", { href: requestsLink({ model: name }, new URLSearchParams(row.range)) }, name) : name);

const TRAFFIC = figureColumns(({ group }) => group, [["requests"], ["failed", 4], ["tokens", 3], ["cost"], ["p50", 2, "Latency p50"], ["p95", 5, "Latency p95"]]);

/** @type {import("../table.js").Column[]} */
const COLUMNS = [
  { key: "id", label: "Model", wide: true, sort: (row) => row.id, cell: (row) => requested(row.id, row) },
  { key: "provider", label: "Provider", sort: (row) => row.provider, cell: (row) => row.provider ?? UNKNOWN },
  { key: "price", label: "Price", sort: priceOf, cell: priceCell },
  ...TRAFFIC,
  { key: "upstream", label: "Upstream model", priority: 1, wraps: true, sort: (row) => row.upstream_model, cell: (row) => h("span", { dir: "auto" }, row.upstream_model ?? UNKNOWN) },
  { key: "capabilities", label: "Capabilities", priority: 1, wraps: true, cell: (row) => h("div", {}, chips(row.capabilities), h("span", { class: "aside" }, furtherFacts(row))) },
];

/** @type {import("../table.js").Column[]} */
const OF_ALIASES = [
  { key: "name", label: "Alias", wraps: true, cell: (row) => h("code", {}, row.name) },
  { key: "targets", label: "Targets, in order", wide: true, cell: (row) => h("ol", { class: "targets" }, row.targets.map((/** @type {string} */ target) => h("li", {}, h("code", {}, target)))) },
];

/** @type {import("../table.js").Column[]} */
const OF_OTHERS = [
  { key: "name", label: "Model as requested", wide: true, sort: (row) => row.name, cell: (row) => requested(row.name, row) },
  { key: "price", label: "Price", sort: priceOf, cell: priceCell },
  ...TRAFFIC,
];

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 * @returns {() => void} to call when the address has changed
 */
export function show(root, app, signal) {
  let words = "";
  const search = searchBox("Search models", "Name, provider…", (value) => { words = value; draw(); });
  const picker = rangePicker(signal);
  const asOf = h("p", { class: "as-of" }, "Prices are in US dollars per million tokens, input and output.");
  const note = h("span", { class: "note" });
  const table = new Table({ caption: "Models", columns: COLUMNS, rowKey: (row) => `${row.provider} ${row.id}`, empty: "", sorted: { key: "requests", down: true } });
  const aliases = new Table({ caption: "Aliases", rowKey: (row) => row.name, columns: OF_ALIASES, empty: "No aliases configured. An alias under aliases gives one name to one model, or to several that stand in for each other." });
  const others = new Table({ caption: "Other models that were requested", rowKey: (row) => row.name, columns: OF_OTHERS, empty: "", sorted: { key: "requests", down: true } });
  const aliased = panel("Aliases", [], aliases.element);
  aliased.classList.add("aliases");
  const rest = panel("Requested under other names", [], others.element);
  root.append(heading("Models", picker.element), asOf, aliased, panel("Catalog", [note, h("div", { class: "filters" }, search)], table.element), rest);
  /** @type {Map<string, any>} the figures of a model, by its name as requested */
  let traffic = new Map();

  function draw() {
    const profiles = app.profiles.value;
    if (!profiles) return;
    const range = String(place().query);
    const rows = profiles.models.map((/** @type {any} */ row) => ({ ...row, group: traffic.get(row.id), range }));
    const fitting = rows.filter((/** @type {any} */ row) => fits(row, words));
    table.setEmpty(rows.length ? "No models match the search" : "The catalog is empty. Models that are not listed can still be requested as provider/model.");
    const order = [...fitting].sort((one, other) => (other.group?.requests ?? 0) - (one.group?.requests ?? 0));
    table.setRows(order.slice(0, MOST_ROWS));
    const all = fitting.length === rows.length ? whole(fitting.length) : `${whole(fitting.length)} of ${whole(rows.length)}`;
    setText(note, fitting.length > MOST_ROWS ? `${all}; showing the first ${MOST_ROWS}, search to find others` : all);
    aliases.setRows(profiles.aliases);
    const listed = new Set(rows.map((/** @type {any} */ { id }) => id));
    const unlisted = [...traffic].filter(([name]) => !listed.has(name)).map(([name, group]) => ({ name, group, range, price: rows.find((/** @type {any} */ row) => row.upstream_model === name)?.price }));
    rest.hidden = unlisted.length === 0;
    others.setRows(unlisted.sort((one, other) => other.group.requests - one.group.requests).slice(0, MOST_ROWS));
  }
  app.profiles.watch(draw, signal);
  const refresh = followGroups(app, "model", signal, (groups, words) => {
    traffic = new Map(groups.filter(({ key }) => key !== undefined).map((group) => [group.key, group]));
    setText(asOf, `Traffic in ${words}. Prices are in US dollars per million tokens, input and output.`);
    draw();
  }, (message) => setText(asOf, message));
  picker.show(place().query);
  return () => {
    picker.show(place().query);
    refresh();
  };
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
