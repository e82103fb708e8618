/** Providers: what they did in a range of time, and a card for each with its health, credentials and accounts. */

import { h, fill, setText } from "../dom.js";
import { facts, heading, searchBox } from "../controls.js";
import { time } from "../format.js";
import { link, place as currentPlace } from "../router.js";
import { badge, chips, healthBadge } from "../status.js";
import { providerTraffic } from "./provider_traffic.js";
import { rangePicker } from "./range_picker.js";

const ORDER = ["failing", "ok", "unknown"];
const SEARCHED_FROM = 10;

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 * @returns {() => void} to call when the address has changed
 */
export function show(root, app, signal) {
  const note = h("p", { class: "as-of" });
  const empty = h("p", { class: "notice", hidden: true }, "No providers configured. Add one under providers in the configuration, then run mgw reload.");
  const cards = h("div", { class: "cards" });
  let words = "";
  const search = searchBox("Search providers", "Name, kind, address…", (value) => { words = value; draw(); });
  const picker = rangePicker(signal);
  const traffic = providerTraffic(app, signal);
  root.append(heading("Providers", search, picker.element), note, empty, traffic.element, cards);
  /** @type {Map<string, { text: string, element: HTMLElement }>} */
  const known = new Map();

  function draw() {
    const profiles = app.profiles.value;
    if (!profiles) return;
    const providers = [...profiles.providers].sort((one, other) => place(one) - place(other) || one.name.localeCompare(other.name));
    const failing = providers.filter((provider) => provider.health?.state === "failing").length;
    setText(note, `${providers.length} configured, ${failing ? `${failing} failing` : "none failing"}`);
    empty.hidden = providers.length > 0;
    search.hidden = providers.length < SEARCHED_FROM;
    const fitting = providers.filter((provider) => fits(provider, words));
    traffic.setProviders(fitting, words === "");
    const elements = fitting.map((provider) => {
      const text = JSON.stringify(provider);
      const old = known.get(provider.name);
      const element = old?.element ?? h("article", { class: "panel card", "aria-label": provider.name });
      if (old?.text !== text) fill(element, ...content(provider));
      known.set(provider.name, { text, element });
      return element;
    });
    for (const name of known.keys()) if (!providers.some((provider) => provider.name === name)) known.delete(name);
    if (elements.some((element, index) => cards.children[index] !== element) || cards.children.length !== elements.length) fill(cards, elements);
  }
  app.profiles.watch(draw, signal);
  app.feed.on("health", () => app.refreshProfiles(), signal);
  picker.show(currentPlace().query);
  return () => {
    picker.show(currentPlace().query);
    traffic.refresh();
  };
}

/** @param {any} provider @returns {number} what fails comes first, then what is in use */
function place({ health }) {
  return ORDER.indexOf(health?.state ?? "unknown");
}

/** @param {any} provider @param {string} words @returns {boolean} */
function fits({ name, kind, base_url, health }, words) {
  const text = [name, kind, base_url, health?.state].join(" ").toLowerCase();
  return words.split(/\s+/).every((part) => text.includes(part));
}

/** @param {any} provider @returns {(Node | null)[]} */
function content({ name, kind, family, base_url, defaults, capabilities, health = {}, credentials }) {
  const failure = health.last_failure;
  return [
    h("div", { class: "card-head" }, h("h2", {}, name), healthBadge(health)),
    h("p", { class: "address" }, base_url),
    facts([
      ["Kind", family && family !== kind ? `${kind} (${family})` : kind],
      ["Default for", defaults?.length ? defaults.join(", ") : undefined],
      ["Last success", health.last_success && time(health.last_success)],
      ["Last failure", failure && h("span", {}, time(failure.time), h("span", { class: "aside" }, ` ${[failure.error, failure.http_status].filter(Boolean).join(", ")}`))],
      ...(credentials ? credentialFacts(credentials) : []),
    ]),
    credentials?.accounts?.length ? accounts(credentials.accounts) : null,
    capabilities?.length ? chips(capabilities) : null,
  ];
}

/** @param {any} credentials @returns {[string, Node | string | undefined][]} */
function credentialFacts({ mode, state, entry, key_hash, expires }) {
  return [
    ["Credentials", h("span", { class: "pair" }, mode, state && mode !== "none" ? badge(state) : "")],
    ["Provider key", key_hash && h("span", { title: "Requests carry this as key_hash: the first digits of the SHA-256 of the credential that is sent to this provider" }, "SHA-256 ", h("code", {}, `${key_hash}…`))],
    ["Login", entry && h("a", { href: link("logins") }, entry)],
    ["Expires", expires && time(expires)],
  ];
}

/** @param {any[]} rows @returns {HTMLElement} */
function accounts(rows) {
  return h("div", { class: "accounts" }, h("h3", {}, "Accounts"), h("ul", {}, rows.map((account) => h(
    "li", {}, h("span", { class: "name" }, account.name), badge(account.state),
    account.rests_until ? h("span", { class: "aside" }, "until ", time(account.rests_until)) : account.expires ? h("span", { class: "aside" }, "expires ", time(account.expires)) : "",
  ))));
}
