/** The overview: what was used in a range of time, as totals, charts and groups, and what happens now. */

import { ApiError } from "../api.js";
import { h, setText } from "../dom.js";
import { moment } from "../format.js";
import { heading, segments } from "../controls.js";
import { poll } from "../pace.js";
import { change, place } from "../router.js";
import { rangeOf } from "../time_range.js";
import { UsageCharts } from "./usage_charts.js";
import { groupsTable } from "./groups_table.js";
import { nowStrip } from "./now_strip.js";
import { rangePicker } from "./range_picker.js";
import { Tiles } from "./tiles.js";

/** @typedef {import("../main.js").App} App */

/** @type {[string, string][]} */
const BREAKDOWNS = [["status", "Status"], ["provider", "Provider"], ["model", "Model"], ["client", "Client"]];

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @param {AbortSignal} signal
 * @returns {() => void} to call when the address has changed
 */
export function show(root, app, signal) {
  const picker = rangePicker(signal);
  const breakdown = segments("Break down by", BREAKDOWNS, (by) => change({ by: by === "status" ? undefined : by }));
  const tiles = new Tiles();
  const charts = new UsageCharts(signal, (since, until) => change({ range: undefined, since: String(since), until: String(until) }));
  const groups = groupsTable();
  const asOf = h("p", { class: "as-of" });
  const hint = h("p", { class: "notice", hidden: true });
  root.append(
    heading("Overview", breakdown.element, picker.element), hint, nowStrip(app, signal), tiles.element, asOf,
    h("div", { class: "usage" }, charts.element, groups.element),
  );

  let asked = new AbortController();

  async function refresh() {
    const { query } = place();
    const by = BREAKDOWNS.some(([name]) => name === query.get("by")) ? String(query.get("by")) : "status";
    const range = rangeOf(query, Date.now() / 1000);
    const until = range.live ? undefined : iso(range.until);
    const parameters = { since: iso(range.since), until, step: range.step };
    const answers = [app.api.get("usage", { ...parameters, by }, asked.signal)];
    if (by === "status") answers.push(app.api.get("usage", parameters, asked.signal));
    const [grouped, plain] = await Promise.all(answers).catch((error) => {
      const isLost = error instanceof ApiError && error.status === 0; // a notice says so
      if (!signal.aborted && !asked.signal.aborted && !isLost) setText(asOf, `Usage is unavailable: ${error.message}`);
      throw error;
    });
    if (signal.aborted || asked.signal.aborted) return;
    tiles.showUsage(grouped.totals);
    charts.show({ grouped, plain, by, range });
    groups.show(grouped.groups ?? [], by, charts.colours);
    setText(asOf, `Totals for ${range.label}${range.live ? "" : `, ${moment(new Date(range.since * 1000))} to ${moment(new Date(range.until * 1000))}`}, as of ${moment(new Date())}`);
  }

  /** @returns {number} seconds: a long range changes slowly */
  const pause = () => Math.min(60, Math.max(5, rangeOf(place().query, Date.now() / 1000).step / 10));
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
    breakdown.mark(BREAKDOWNS.some(([name]) => name === query.get("by")) ? String(query.get("by")) : "status");
  }
  mark();
  return () => {
    mark();
    asked.abort();
    asked = new AbortController();
    refreshSoon(0);
  };
}

/** @param {number} unix @returns {string} */
function iso(unix) {
  return new Date(unix * 1000).toISOString();
}
