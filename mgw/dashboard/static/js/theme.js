/** The colour scheme: the system's, or one that was chosen and is kept in this browser. */

import { fill } from "./dom.js";
import { icon } from "./icons.js";

const NAME = "mgw.theme"; // early_theme.js reads it too
const CHOICES = ["system", "light", "dark"];
const listeners = new Set();

/** @returns {string} */
function chosen() {
  return document.documentElement.dataset.theme ?? "system";
}

/** @param {string} choice */
function choose(choice) {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  try {
    localStorage.setItem(NAME, choice);
  } catch {
    // a browser that keeps nothing forgets the choice
  }
}

/**
 * @param {() => void} listener called when the colours have changed
 * @param {AbortSignal} signal
 */
export function watchColours(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener), { once: true });
}

/** @param {HTMLButtonElement} button */
export function bindThemeButton(button) {
  const show = () => {
    const choice = chosen();
    fill(button, icon(choice), choice[0].toUpperCase() + choice.slice(1));
    button.setAttribute("aria-label", `Theme: ${choice}. Change theme`);
    button.title = "Theme: system, light or dark";
  };
  const tell = () => { for (const listener of [...listeners]) listener(); };
  button.addEventListener("click", () => {
    choose(CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length]);
    show();
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  show();
}
