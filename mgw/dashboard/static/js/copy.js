/** Copying a text, also where the page came over HTTP from another machine and has no clipboard of its own. */

import { h, setText } from "./dom.js";
import { icon } from "./icons.js";

const TOLD_MS = 2000;

/**
 * @param {string} what the button copies, in words
 * @param {string | (() => string)} text or what returns it, where it changes
 * @returns {HTMLElement}
 */
export function copyButton(what, text) {
  const told = h("span", { class: "unseen", role: "status" });
  const button = h("button", { type: "button", class: "quiet small copy", "aria-label": `Copy ${what}`, title: `Copy ${what}` }, icon("copy"));
  button.addEventListener("click", async () => {
    const done = await copy(typeof text === "string" ? text : text());
    button.firstElementChild?.replaceWith(icon(done ? "ok" : "copy"));
    setText(told, done ? "Copied" : "Select the text and copy it");
    setTimeout(() => { button.firstElementChild?.replaceWith(icon("copy")); setText(told, ""); }, TOLD_MS);
  });
  return h("span", { class: "copies" }, button, told);
}

/** @param {string} text @returns {Promise<boolean>} whether it is in the clipboard */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text @returns {boolean} */
function copyBySelection(text) {
  const before = document.activeElement;
  const field = h("textarea", { class: "unseen", readonly: true, "aria-hidden": "true", tabindex: "-1" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}
