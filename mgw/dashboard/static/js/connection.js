/** Whether the page is live: told in the bar, and as a notice when the figures are old. */

import { fill, h, setText } from "./dom.js";
import { moment } from "./format.js";

const RELOAD_PAUSE = 10_000;
const RELOADED = "mgw.reloaded";

/**
 * @param {HTMLElement} state
 * @param {HTMLElement} notices
 * @param {import("./feed.js").Feed} feed
 * @param {AbortSignal} signal
 * @returns {{ heard: (status: number) => void, showDraining: (draining: boolean) => void }}
 */
export function connectionState(state, notices, feed, signal) {
  const lost = h("p", { class: "notice bad", hidden: true });
  const draining = h("p", { class: "notice warn", hidden: true }, "The gateway is draining: it finishes the requests in progress, then stops.");
  const refused = h("p", { class: "notice bad", hidden: true });
  fill(notices, draining, refused, lost);
  const words = h("span");
  fill(state, h("span", { class: "dot", "aria-hidden": "true" }), words);
  let reached = true;
  let isDraining = false;
  let last = new Date();

  function draw() {
    const live = feed.state.value === "live";
    const name = !reached ? "lost" : live ? "live" : isDraining ? "draining" : "connecting";
    if (state.dataset.state !== name) state.dataset.state = name;
    setText(words, { lost: "Offline", live: "Live", connecting: "Connecting", draining: "Draining" }[name]);
    lost.hidden = reached;
    draining.hidden = !isDraining || !reached;
    if (!reached) setText(lost, `The gateway cannot be reached. This page shows data from ${moment(last)} and reconnects automatically.`);
  }
  feed.state.watch(draw, signal);

  return {
    heard: (status) => {
      if (status === 401) signInAgain();
      reached = status !== 0;
      if (reached && status < 400) last = new Date();
      refused.hidden = status !== 403;
      if (status === 403) setText(refused, "The gateway rejected this browser: without a key, the dashboard is available only on the gateway's own machine.");
      draw();
    },
    showDraining: (now) => {
      isDraining = now;
      draw();
    },
  };
}

/** The page's own address answers with the sign-in page; not again and again, should it not. */
function signInAgain() {
  const before = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (Date.now() - before < RELOAD_PAUSE) return;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
}
