/** What stands below the rows of a list: that there are more, that there is nothing, where the past begins, what failed. */

import { sentence } from "../api.js";
import { h, fill, setText } from "../dom.js";
import { moment, whole } from "../format.js";
import { MOST_ROWS } from "../request_list.js";

/**
 * @typedef {object} Shown
 * @property {import("../request_list.js").RequestList} list
 * @property {number} shown rows
 * @property {boolean} isFiltered
 * @property {any} profiles the API's answer, or undefined before the first
 */

/**
 * @param {{ again: () => void, older: () => void, earlier: () => void, clear: () => void }} actions
 * @returns {{ element: HTMLElement, show: (state: Shown) => void }}
 */
export function listEnd(actions) {
  const element = h("div", { class: "list-end" });
  let last = "";

  /** @param {string} words @param {() => void} action @returns {HTMLElement} */
  const button = (words, action) => h("button", { type: "button", on: { click: action } }, words);

  /** It stays while a page is loaded, so that it keeps the focus. */
  const older = button("Load older", actions.older);

  /** @param {Shown} state @returns {[string, (string | Node)[]]} a name, and content that is the same for the same name */
  function content({ list, shown, isFiltered, profiles }) {
    if (list.state === "failed") return [`failed ${list.problem?.message}`, [h("p", { class: "problem", role: "alert" }, `History is unavailable: ${sentence(list.problem?.message ?? "")}`), button("Try again", list.events.size && list.more ? actions.older : actions.again)]];
    setText(older, list.state === "loading" ? "Loading…" : "Load older");
    if (list.state === "loading") return shown ? ["more", [older]] : ["loading", [h("p", {}, "Loading…")]];
    if (list.more && list.isFull()) return ["full", [h("p", {}, `The page shows at most ${whole(MOST_ROWS)} requests at a time.`), button("Show older requests", actions.earlier)]];
    if (list.more) return ["more", [older]];
    const beginning = list.source === "memory" ? historyInMemory(list, isFiltered, profiles) : "";
    if (shown) return [`end ${beginning}`, [h("p", {}, beginning || (isFiltered ? "No older requests match." : "No older requests."))]];
    if (list.wanted.id) return [`unknown ${beginning}`, [h("p", {}, "No request has this ID."), beginning ? h("p", {}, beginning) : h("p", {}, "It may be older than hooks.sqlite.retention_days allows."), button("Clear filters", actions.clear)]];
    if (isFiltered) return [`none ${beginning}`, [h("p", {}, "No requests match the filters."), beginning ? h("p", {}, beginning) : "", button("Clear filters", actions.clear)]];
    return [`empty ${beginning}`, [h("p", {}, "No requests yet. New ones appear here."), beginning ? h("p", {}, beginning) : ""]];
  }

  return {
    element,
    show: (state) => {
      const [name, nodes] = content(state);
      if (name === last) return;
      last = name;
      const hadFocus = element.contains(document.activeElement);
      fill(element, nodes);
      if (hadFocus) /** @type {HTMLElement | null} */ (element.querySelector("button") ?? element.closest(".scroll"))?.focus({ preventScroll: true });
    },
  };
}

/**
 * @param {import("../request_list.js").RequestList} list
 * @param {boolean} isFiltered
 * @param {any} profiles
 * @returns {string}
 */
function historyInMemory(list, isFiltered, profiles) {
  const oldest = isFiltered ? undefined : list.oldest();
  const start = oldest ? `History begins at ${moment(new Date(oldest.time))}. ` : "";
  const since = profiles ? ` since it started (${moment(new Date(profiles.started))})` : "";
  return `${start}The gateway keeps at most the last 10,000 requests${since} in memory. To keep a month, set hooks.sqlite: path and retention_days: 30.`;
}
