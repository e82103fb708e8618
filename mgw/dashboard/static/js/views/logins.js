/** Logins: the entries of the credential store that are filled by logging in at a provider. */

import { h, fill, setText } from "../dom.js";
import { heading } from "../controls.js";
import { badge, word } from "../status.js";
import { Flow } from "./flow.js";

/** @typedef {import("../main.js").App} App */

const WORDS = /** @type {Record<string, string>} */ ({ device: "Log in with a code", pkce: "Log in with a browser" });

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  const empty = h("p", { class: "notice", hidden: true }, "No logins configured. Providers with an OAuth profile in the configuration appear here.");
  const cards = h("div", { class: "cards" });
  root.append(heading("Logins"), h("p", { class: "as-of" }, "Provider accounts that the gateway uses. Their tokens stay in its credential store."), empty, cards);
  /** @type {Map<string, { element: HTMLElement, show: (login: any) => void }>} */
  const known = new Map();

  app.profiles.watch((profiles) => {
    if (!profiles) return;
    const logins = profiles.logins ?? [];
    empty.hidden = logins.length > 0;
    const entries = new Set(logins.map((/** @type {any} */ { entry }) => entry));
    for (const [entry, { element }] of known) {
      if (entries.has(entry)) continue;
      element.remove();
      known.delete(entry);
    }
    for (const login of logins) {
      let card = known.get(login.entry);
      if (!card) {
        card = entryCard(login, app, signal);
        known.set(login.entry, card);
        cards.append(card.element);
      }
      card.show(login);
    }
  }, signal);
}

/**
 * @param {any} login
 * @param {App} app
 * @param {AbortSignal} signal
 * @returns {{ element: HTMLElement, show: (login: any) => void }}
 */
function entryCard({ entry, profile, flows }, app, signal) {
  const state = h("span");
  const actions = h("div", { class: "row-of-buttons" });
  const flow = new Flow(entry, app, signal, (pending) => { actions.hidden = pending; });
  for (const name of flows) {
    actions.append(h("button", { type: "button", class: name === flows[0] ? "primary" : undefined, on: { click: () => flow.start(name) } }, WORDS[name] ?? `Log in (${name})`));
  }
  const element = h(
    "article", { class: "panel card", "aria-label": entry },
    h("div", { class: "card-head" }, h("h2", {}, entry), state),
    profile ? h("p", { class: "address" }, `Profile: ${profile}`) : null,
    flow.element,
    flows.length ? actions : h("p", { class: "hint" }, "This profile has no login flow for the dashboard. Run mgw auth login on the gateway's machine."),
  );
  return {
    element,
    show: (login) => {
      if (login.pending) flow.resume();
      const [text] = [word(login.state)];
      if (state.textContent !== text) fill(state, badge(login.state));
      for (const button of actions.children) {
        const words = WORDS[flows[[...actions.children].indexOf(button)]] ?? button.textContent;
        button.classList.toggle("primary", login.state !== "signed_in" && button === actions.firstElementChild);
        setText(button, login.state === "signed_in" ? words.replace("Log in", "Log in again") : words);
      }
    },
  };
}
