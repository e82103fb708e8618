/** The choice of a range of time: a preset, or two moments in a form. */

import { h } from "../dom.js";
import { segments } from "../controls.js";
import { change, place } from "../router.js";
import { PRESETS, presetOf, rangeOf, toInput } from "../time_range.js";

/** @type {[string, string]} */
const ANY = ["any", "Any time"];

/**
 * @param {AbortSignal} signal
 * @param {{ any?: boolean, also?: Record<string, undefined> }} [how] any: no range is a choice, too, and the one that an
 *   address without a range makes; also: what else a choice takes out of the address
 * @returns {{ element: HTMLElement, show: (query: URLSearchParams) => void }}
 */
export function rangePicker(signal, { any = false, also = {} } = {}) {
  const since = h("input", { type: "datetime-local", required: true });
  const until = h("input", { type: "datetime-local", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h(
    "form", { class: "popover", hidden: true, "aria-label": "Custom range" },
    h("label", {}, "From", since), h("label", {}, "To", until), problem,
    h("div", { class: "row-of-buttons" }, h("button", { type: "submit", class: "primary" }, "Apply"), h("button", { type: "button", on: { click: () => close() } }, "Cancel")),
  );
  /** @type {[string, string][]} */
  const choices = [...(any ? [ANY] : []), ...PRESETS.map(([name, words]) => /** @type {[string, string]} */ ([name, words])), ["custom", "Custom"]];
  const buttons = segments("Time range", choices, (value) => {
    if (value === "custom") open();
    else change({ ...also, range: value === ANY[0] ? undefined : value, since: undefined, until: undefined });
  });
  const custom = /** @type {HTMLButtonElement} */ (buttons.element.lastElementChild);
  custom.setAttribute("aria-expanded", "false");
  const element = h("div", { class: "picker" }, buttons.element, form);

  function open() {
    const range = rangeOf(place().query, Date.now() / 1000);
    since.value = toInput(range.since);
    until.value = toInput(range.until);
    problem.textContent = "";
    form.hidden = false;
    custom.setAttribute("aria-expanded", "true");
    since.focus();
  }

  function close() {
    if (form.hidden) return;
    form.hidden = true;
    custom.setAttribute("aria-expanded", "false");
    custom.focus();
  }

  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const from = Date.parse(since.value) / 1000;
    const to = Date.parse(until.value) / 1000;
    if (!(from < to)) {
      problem.textContent = "The end must be after the start.";
      return;
    }
    close();
    change({ ...also, range: undefined, since: String(from), until: String(to) });
  });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") close(); });
  document.addEventListener("pointerdown", (event) => {
    if (!form.hidden && !element.contains(/** @type {Node} */ (event.target))) form.hidden = true;
    custom.setAttribute("aria-expanded", String(!form.hidden));
  }, { signal });
  return { element, show: (query) => buttons.mark(any ? presetOrAny(query) : presetOf(query)) };
}

/** @param {URLSearchParams} query @returns {string} where one end of a range may be open */
function presetOrAny(query) {
  if (query.get("since") || query.get("until")) return "custom";
  return query.get("range") ? presetOf(query) : ANY[0];
}
