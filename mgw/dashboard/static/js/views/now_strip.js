/** The last minute, second by second, from the feed alone. */

import { h, setText } from "../dom.js";
import { SECONDS } from "../recent.js";

/**
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 * @returns {HTMLElement}
 */
export function nowStrip(app, signal) {
  const bars = Array.from({ length: SECONDS }, () => h("span", {}, h("i")));
  const figure = h("strong", {}, "0.0");
  const failed = h("span", { class: "failed" });
  const element = h(
    "section", { class: "panel now", "aria-label": "Last minute" },
    h("p", { class: "rate" }, figure, h("span", {}, " requests/s"), failed),
    h("div", { class: "bars", "aria-hidden": "true", title: "Completed requests in each of the last 60 seconds" }, bars),
  );

  function draw() {
    if (document.hidden) return;
    const seconds = app.recent.lastSeconds();
    const most = Math.max(4, ...seconds.map(({ ended }) => ended));
    seconds.forEach(({ ended, failed: bad }, index) => {
      const bar = /** @type {HTMLElement} */ (bars[index]);
      bar.style.height = `${(100 * ended) / most}%`;
      /** @type {HTMLElement} */ (bar.firstElementChild).style.height = ended ? `${(100 * bad) / ended}%` : "0";
    });
    const rate = app.recent.rate();
    const bad = seconds.reduce((total, second) => total + second.failed, 0);
    const refused = seconds.reduce((total, second) => total + second.rejected, 0);
    setText(figure, rate.toFixed(rate < 10 ? 1 : 0));
    const counts = [bad && `${bad} failed`, refused && `${refused} rejected`].filter(Boolean).join(", ");
    setText(failed, counts && `${counts} in the last minute`);
  }

  const timer = setInterval(draw, 1000);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  draw();
  return element;
}
