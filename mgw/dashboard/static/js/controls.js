/** Small controls that several views have. */

import { h, setText } from "./dom.js";
import { icon } from "./icons.js";

/**
 * A row of choices of which one is taken.
 * @param {string} label
 * @param {[string, string][]} choices value and words
 * @param {(value: string) => void} choose
 * @returns {{ element: HTMLElement, mark: (value: string) => void }}
 */
export function segments(label, choices, choose) {
  const buttons = choices.map(([value, words]) => h("button", { type: "button", "data-value": value, "aria-pressed": "false", on: { click: () => choose(value) } }, words));
  return {
    element: h("div", { class: "segments", role: "group", "aria-label": label }, buttons),
    mark: (value) => { for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value)); },
  };
}

/**
 * A control with its label before it, in words that everybody sees.
 * @param {string} label
 * @param {HTMLElement} control with the same label of its own
 * @returns {HTMLElement}
 */
export function labelled(label, control) {
  return h("div", { class: "labelled" }, h("span", { class: "note", "aria-hidden": "true" }, label), control);
}

/**
 * @param {string} label
 * @param {string} placeholder
 * @param {(text: string) => void} changed
 * @returns {HTMLInputElement}
 */
export function searchBox(label, placeholder, changed) {
  const input = h("input", { type: "search", "aria-label": label, placeholder, autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => changed(input.value.trim().toLowerCase()));
  return input;
}

/** A list of choices that come to be known over time; the first stands for all. */
export class Choice {
  /**
   * @param {string} label
   * @param {string} all
   * @param {(value: string) => void} changed
   */
  constructor(label, all, changed) {
    /** @type {HTMLSelectElement} */
    this.element = h("select", { "aria-label": label }, h("option", { value: "" }, all));
    this.element.addEventListener("change", () => changed(this.element.value));
    /** @type {Set<string>} */
    this.known = new Set();
  }

  /**
   * @param {Iterable<string | undefined>} values
   * @param {(value: string) => string} [words]
   */
  offer(values, words = (value) => value) {
    for (const value of values) {
      if (value === undefined || this.known.has(value) || this.known.size >= 200) continue;
      this.known.add(value);
      this.element.append(h("option", { value }, words(value)));
    }
  }
}

/**
 * @param {(paused: boolean) => void} changed
 * @returns {{ element: HTMLButtonElement, show: (paused: boolean, missed: number) => void }}
 */
export function pauseButton(changed) {
  let paused = false;
  const label = h("span", {}, "Pause");
  const button = h("button", { type: "button", "aria-pressed": "false" }, icon("pause"), label);
  button.addEventListener("click", () => {
    paused = !paused;
    changed(paused);
  });
  return {
    element: button,
    show: (now, missed) => {
      button.setAttribute("aria-pressed", String(now));
      const wanted = icon(now ? "resume" : "pause");
      if (button.dataset.icon !== String(now)) button.firstElementChild?.replaceWith(wanted);
      button.dataset.icon = String(now);
      setText(label, now ? `Resume${missed ? ` (${missed} new)` : ""}` : "Pause");
    },
  };
}

/**
 * The title of a view, with its controls beside it.
 * @param {string} title
 * @param {...Node} controls
 * @returns {HTMLElement}
 */
export function heading(title, ...controls) {
  return h("div", { class: "heading" }, h("h1", {}, title), h("div", { class: "controls" }, controls));
}

/**
 * @param {string} title
 * @param {Node[]} beside
 * @param {...Node} content
 * @returns {HTMLElement}
 */
export function panel(title, beside, ...content) {
  return h("section", { class: "panel", "aria-label": title }, h("div", { class: "panel-head" }, h("h2", {}, title), beside), content);
}

/**
 * Names and values, as a description list; what is unknown is left out.
 * @param {[string, Node | string | undefined][]} pairs
 * @returns {HTMLElement}
 */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
