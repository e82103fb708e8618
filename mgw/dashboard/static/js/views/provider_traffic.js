/** What each provider did in a range of time: how much, how well, and how fast. */

import { h, setText } from "../dom.js";
import { panel } from "../controls.js";
import { figureColumns } from "../figures.js";
import { requestsLink } from "../links.js";
import { place } from "../router.js";
import { healthBadge } from "../status.js";
import { Table } from "../table.js";
import { followGroups } from "../usage_query.js";

/**
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 * @returns {{ element: HTMLElement, setProviders: (providers: any[], all: boolean) => void, refresh: () => void }}
 */
export function providerTraffic(app, signal) {
  const note = h("span", { class: "note" });
  const table = new Table({
    caption: "Traffic by provider",
    rowKey: ({ name }) => name,
    empty: "No providers configured",
    sorted: { key: "requests", down: true },
    columns: [
      { key: "name", label: "Provider", wide: true, sort: ({ name }) => name, cell: ({ name, range }) => h("a", { href: requestsLink({ provider: name }, new URLSearchParams(range)), title: `The requests of ${name}` }, name) },
      { key: "health", label: "Health", priority: 5, sort: ({ health }) => health?.state, cell: ({ isConfigured, health }) => (isConfigured ? healthBadge(health) : "Not configured") },
      ...figureColumns(({ group }) => group, [
        ["requests"], ["answered", 1], ["failed"], ["rejected", 3], ["aborted", 2], ["cost", 6],
        ["p50", undefined, "Latency p50"], ["p95", undefined, "Latency p95"], ["ttft50", 4], ["ttft95", 4],
      ]),
    ],
  });
  /** @type {any[]} */
  let providers = [];
  let isAll = true;
  /** @type {any[]} */
  let groups = [];

  function draw() {
    const range = String(place().query);
    const configured = providers.map(({ name, health }) => ({ name, health: { state: health?.state, last_failure: health?.last_failure !== undefined }, isConfigured: true, range, group: groups.find(({ key }) => key === name) ?? NONE }));
    const others = isAll ? groups.filter(({ key }) => key !== undefined && !app.profiles.value?.providers.some((/** @type {any} */ { name }) => name === key)) : [];
    table.setRows([...configured, ...others.map((group) => ({ name: group.key, isConfigured: false, range, group }))]);
  }

  return {
    element: panel("Traffic", [note], table.element),
    setProviders: (now, all) => {
      [providers, isAll] = [now, all];
      draw();
    },
    refresh: followGroups(app, "provider", signal, (now, words) => {
      groups = now;
      setText(note, words);
      draw();
    }, (message) => setText(note, message)),
  };
}

/** A provider without requests. */
const NONE = { requests: 0, answered: 0, failed: 0, rejected: 0, aborted: 0 };
