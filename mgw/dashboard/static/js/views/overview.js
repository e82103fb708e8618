/** The overview: what was used in a range of time, as totals, charts and groups, and what happens now. */

import { ApiError } from "../api.js";
import { h, setText } from "../dom.js";
import { moment } from "../format.js";
import { heading, labelled, segments } from "../controls.js";
import { GROUPINGS, groupName } from "../names.js";
import { poll } from "../pace.js";
import { change, place } from "../router.js";
import { rangeOf } from "../time_range.js";
import { parametersOf, pause, rangeWords } from "../usage_query.js";
import { UsageCharts } from "./usage_charts.js";
import { gapTiles, gapsOf } from "./gaps.js";
import { groupsTable } from "./groups_table.js";
import { nowStrip } from "./now_strip.js";
import { rangePicker } from "./range_picker.js";
import { Tiles } from "./tiles.js";

/** @typedef {import("../main.js").App} App */

/** How long the models without a price are remembered: they are a query of their own. */
const MODELS_MS = 60_000;

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @param {AbortSignal} signal
 * @returns {() => void} to call when the address has changed
 */
export function show(root, app, signal) {
  const picker = rangePicker(signal);
  const breakdown = segments("Group by", GROUPINGS, (by) => change({ by: by === "status" ? undefined : by }));
  const tiles = new Tiles();
  const charts = new UsageCharts(signal, (since, until) => change({ range: undefined, since: String(since), until: String(until) }));
  const groups = groupsTable();
  const gaps = gapTiles();
  const asOf = h("p", { class: "as-of" });
  const hint = h("p", { class: "notice", hidden: true });
  root.append(
    heading("Overview", picker.element), hint, nowStrip(app, signal), tiles.element, gaps.element,
    h("div", { class: "heading below" }, asOf, labelled("Group by", breakdown.element)),
    charts.element, groups.element,
  );

  let asked = new AbortController();

  let models = { until: 0, range: "", groups: /** @type {any[] | undefined} */ (undefined) };
  /** @param {any} grouped @param {string} by @param {ReturnType<typeof parametersOf>} parameters @param {string} label */
  async function modelsWithoutPrice(grouped, by, parameters, label) {
    if (!grouped.totals.unpriced) return undefined;
    if (by === "model") return grouped.groups;
    if (models.range !== label || Date.now() > models.until) {
      const { groups: found } = await app.api.get("usage", { ...parameters, by: "model" }, asked.signal);
      models = { until: Date.now() + MODELS_MS, range: label, groups: found };
    }
    return models.groups;
  }

  async function refresh() {
    const { query } = place();
    const by = byOf(query);
    const range = rangeOf(query, Date.now() / 1000);
    const parameters = parametersOf(range);
    const answers = [app.api.get("usage", { ...parameters, by }, asked.signal)];
    if (by === "status") answers.push(app.api.get("usage", parameters, asked.signal));
    const [grouped, plain] = await Promise.all(answers).catch((error) => {
      const isLost = error instanceof ApiError && error.status === 0; // a notice says so
      if (!signal.aborted && !asked.signal.aborted && !isLost) setText(asOf, `Usage is unavailable: ${error.message}`);
      throw error;
    });
    if (signal.aborted || asked.signal.aborted) return;
    /** @param {string | undefined} key */
    const nameOf = (key) => groupName(by, key, app.profiles.value?.providers);
    tiles.showUsage(grouped.totals);
    charts.show({ grouped, plain, by, range, nameOf });
    groups.show(grouped.groups ?? [], by, charts.colours, nameOf);
    setText(asOf, `Totals for ${rangeWords(range)}`);
    const unpriced = await modelsWithoutPrice(grouped, by, parameters, range.label);
    if (!signal.aborted) gaps.show(gapsOf(grouped.totals, unpriced, app.profiles.value?.prices !== false));
  }

  const refreshSoon = poll(refresh, pause, signal);
  signal.addEventListener("abort", () => asked.abort(), { once: true });

  let seen = app.recent.events.added;
  app.recent.watch(() => {
    if (app.recent.events.added === seen) return;
    seen = app.recent.events.added;
    if (rangeOf(place().query, Date.now() / 1000).step <= 60) refreshSoon(3000);
  }, signal);
  app.profiles.watch((profiles) => {
    if (!profiles) return;
    tiles.showProfiles(profiles);
    hint.hidden = profiles.usage_source !== "memory";
    setText(hint, `Usage is kept in memory only, since the gateway started (${moment(new Date(profiles.started))}). To keep it across restarts, set hooks.sqlite.path in the configuration.`);
  }, signal);

  function mark() {
    const { query } = place();
    picker.show(query);
    breakdown.mark(byOf(query));
  }
  mark();
  return () => {
    mark();
    asked.abort();
    asked = new AbortController();
    refreshSoon(0);
  };
}

/** @param {URLSearchParams} query @returns {string} */
function byOf(query) {
  const by = query.get("by") ?? "";
  return GROUPINGS.some(([name]) => name === by) ? by : "status";
}
