/** The choice of a range of time: a preset, or two moments in a form. */

import { h } from "../dom.js";
import { segments } from "../controls.js";
import { change, place } from "../router.js";
import { PRESETS, presetOf, rangeOf, toInput } from "../time_range.js";

/**
 * @param {AbortSignal} signal
 * @returns {{ element: HTMLElement, show: (query: URLSearchParams) => void }}
 */
export function rangePicker(signal) {
  const since = h("input", { type: "datetime-local", required: true });
  const until = h("input", { type: "datetime-local", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h(
    "form", { class: "popover", hidden: true, "aria-label": "Custom range" },
    h("label", {}, "From", since), h("label", {}, "To", until), problem,
    h("div", { class: "row-of-buttons" }, h("button", { type: "submit", class: "primary" }, "Apply"), h("button", { type: "button", on: { click: () => close() } }, "Cancel")),
  );
  /** @type {[string, string][]} */
  const choices = [...PRESETS.map(([name, words]) => /** @type {[string, string]} */ ([name, words])), ["custom", "Custom"]];
  const buttons = segments("Time range", choices, (value) => {
    if (value === "custom") open();
    else change({ range: value, since: undefined, until: undefined });
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
    change({ range: undefined, since: String(from), until: String(to) });
  });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") close(); });
  document.addEventListener("pointerdown", (event) => {
    if (!form.hidden && !element.contains(/** @type {Node} */ (event.target))) form.hidden = true;
    custom.setAttribute("aria-expanded", String(!form.hidden));
  }, { signal });
  return { element, show: (query) => buttons.mark(presetOf(query)) };
}
