/** The page: makes what all views share, and shows the view that the address names. */

import { Api } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { icon } from "./icons.js";
import { poll } from "./pace.js";
import { Recent } from "./recent.js";
import { link, place } from "./router.js";
import { connectionState } from "./connection.js";
import { bindThemeButton } from "./theme.js";
import { Value } from "./value.js";
import { show as showLimits } from "./views/limits.js";
import { show as showLogins } from "./views/logins.js";
import { show as showLogs } from "./views/logs.js";
import { show as showModels } from "./views/models.js";
import { show as showOverview } from "./views/overview.js";
import { show as showProviders } from "./views/providers.js";
import { show as showRequests } from "./views/requests.js";
import { show as showSessions } from "./views/sessions.js";
import { show as showTryIt } from "./views/try_it.js";

/**
 * @typedef {object} App what a view gets
 * @property {Api} api
 * @property {Feed} feed
 * @property {Recent} recent
 * @property {Value<any>} profiles the answer of `profiles`, or undefined before the first
 * @property {() => void} refreshProfiles
 */
/** @typedef {(root: HTMLElement, app: App, signal: AbortSignal) => (() => void) | void} Show */

/** @type {[string, string, Show][]} */
const VIEWS = [
  ["overview", "Overview", showOverview],
  ["requests", "Requests", showRequests],
  ["providers", "Providers", showProviders],
  ["models", "Models", showModels],
  ["sessions", "Sessions", showSessions],
  ["limits", "Limits", showLimits],
  ["logs", "Logs", showLogs],
  ["logins", "Logins", showLogins],
  ["try", "Try it", showTryIt],
];
const PROFILES_SECONDS = 5;

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/** @returns {App} */
function start() {
  const always = new AbortController().signal;
  const feed = new Feed();
  const connection = connectionState(byId("link"), byId("notices"), feed, always);
  const api = new Api(connection.heard);
  /** @type {Value<any>} */
  const profiles = new Value(undefined);
  const refresh = poll(async () => profiles.set(await api.get("profiles")), () => PROFILES_SECONDS, always);
  feed.state.watch((state) => { if (state === "lost") refresh(500); }, always);
  profiles.watch((now) => {
    if (!now) return;
    setText(byId("version"), now.version);
    byId("version").title = `Started ${now.started}; configuration generation ${now.generation}, loaded ${now.loaded}`;
    byId("sign-out").hidden = now.auth !== "keys";
    connection.showDraining(now.draining);
  }, always);
  byId("sign-out").addEventListener("click", async () => {
    await fetch("ui/logout", { method: "POST" });
    location.reload();
  });
  bindThemeButton(byId("theme"));
  return { api, feed, profiles, recent: new Recent(feed, always), refreshProfiles: () => refresh(0) };
}

/** @type {Record<string, (profiles: any) => boolean>} whether a view has anything to show with this configuration */
const IS_SET_UP = {
  sessions: ({ providers }) => providers.some((/** @type {any} */ { capabilities }) => capabilities.includes("realtime")),
  logins: ({ logins }) => (logins ?? []).length > 0,
};

/**
 * The links to the views; those to what is not set up stand apart, at the end.
 * @param {App} app
 * @param {HTMLElement[]} links
 */
function orderLinks(app, links) {
  const items = links.map((element) => h("li", {}, element));
  const apart = h("li", { class: "apart", id: "nav-apart" }, "Not set up");
  let order = "";
  app.profiles.watch((profiles) => {
    const isQuiet = VIEWS.map(([name]) => profiles !== undefined && IS_SET_UP[name]?.(profiles) === false);
    if (order === String(isQuiet)) return;
    order = String(isQuiet);
    items.forEach((item, index) => item.classList.toggle("quiet", isQuiet[index]));
    links.forEach((element, index) => (isQuiet[index] ? element.setAttribute("aria-describedby", apart.id) : element.removeAttribute("aria-describedby")));
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    fill(byId("nav"), items.filter((_, index) => !isQuiet[index]), isQuiet.includes(true) ? apart : "", items.filter((_, index) => isQuiet[index]));
    if (links.includes(/** @type {HTMLElement} */ (focused))) focused?.focus();
  }, new AbortController().signal);
}

/** @param {App} app */
function follow(app) {
  const links = VIEWS.map(([name, title]) => h("a", { href: link(name) }, icon(name), h("span", {}, title)));
  const failing = h("strong", {});
  const failingProviders = h("span", { class: "failing", hidden: true }, failing, h("span", { class: "unseen" }, " failing"));
  links[VIEWS.findIndex(([name]) => name === "providers")].append(failingProviders);
  app.profiles.watch((profiles) => {
    const count = (profiles?.providers ?? []).filter((/** @type {any} */ { health }) => health?.state === "failing").length;
    failingProviders.hidden = count === 0;
    failingProviders.title = `${count} failing`;
    setText(failing, String(count));
  }, new AbortController().signal);
  orderLinks(app, links);
  const tryIt = links[VIEWS.findIndex(([name]) => name === "try")].parentElement;
  app.profiles.watch((profiles) => { tryIt.hidden = profiles?.try_it === undefined; }, new AbortController().signal);
  let shown = "";
  let life = new AbortController();
  /** @type {(() => void) | void} */
  let update;

  function go(/** @type {boolean} */ isFirst) {
    if (location.hash === "#content") return; // the skip link
    const [name, title, show] = VIEWS.find(([known]) => known === place().name) ?? VIEWS[0];
    if (name === shown) {
      update?.();
      return;
    }
    life.abort();
    life = new AbortController();
    shown = name;
    const root = h("div", { class: `view view-${name}` });
    fill(byId("view"), root);
    document.title = `${title} · mgw`;
    VIEWS.forEach(([known], index) => {
      if (known === name) links[index].setAttribute("aria-current", "page");
      else links[index].removeAttribute("aria-current");
      if (known === name) links[index].scrollIntoView({ block: "nearest", inline: "center" });
    });
    update = show(root, app, life.signal);
    scrollTo(0, 0);
    if (!isFirst) byId("content").focus({ preventScroll: true });
  }
  addEventListener("hashchange", () => go(false));
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    byId("content").focus();
  });
  go(true);
}

follow(start());
