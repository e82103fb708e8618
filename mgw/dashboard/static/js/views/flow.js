/** One login under way: what is to be done at the provider, and how it goes. */

import { ApiError, sentence } from "../api.js";
import { h, fill, setText } from "../dom.js";
import { seconds } from "../format.js";
import { icon } from "../icons.js";
import { poll } from "../pace.js";
import { badge, word } from "../status.js";

const SECONDS = 2;

export class Flow {
  /**
   * @param {string} entry
   * @param {import("../main.js").App} app
   * @param {AbortSignal} signal
   * @param {(pending: boolean) => void} changed
   */
  constructor(entry, app, signal, changed) {
    this.path = `oauth/${encodeURIComponent(entry)}`;
    this.app = app;
    this.signal = signal;
    this.changed = changed;
    /** What is drawn, so that a poll does not take the focus or what is typed. */
    this.drawn = "";
    this.pending = false;
    this.watch = new AbortController();
    signal.addEventListener("abort", () => this.watch.abort(), { once: true });
    this.steps = h("div", { class: "steps" });
    this.state = h("p", { class: "flow-state", role: "status" });
    this.left = h("p", { class: "hint" });
    this.problem = h("p", { class: "problem", role: "alert" });
    this.element = h("div", { class: "flow" }, this.steps, this.state, this.left, this.problem);
  }

  /** @param {string} flow */
  start(flow) {
    this.do(() => this.app.api.post(this.path, { flow }, this.signal));
  }

  /** Show one that is under way already, and that this page does not show yet. */
  async resume() {
    if (this.pending) return;
    try {
      const answer = await this.app.api.get(this.path, {}, this.signal);
      if (answer.state === "pending") this.show(answer);
    } catch {
      // there is none
    }
  }

  /** @param {() => Promise<any>} call */
  async do(call) {
    setText(this.problem, "");
    try {
      this.show(await call());
    } catch (error) {
      if (!this.signal.aborted) setText(this.problem, sentence(error instanceof Error ? error.message : String(error)));
    }
  }

  /** @param {any} answer */
  show(answer) {
    const pending = answer.state === "pending";
    this.pending = pending;
    this.changed(pending);
    const shape = pending ? JSON.stringify([answer.flow, answer.user_code, answer.authorization_url, answer.wants_code]) : answer.state;
    if (shape !== this.drawn) {
      this.drawn = shape;
      fill(this.steps, pending ? this.pendingSteps(answer) : []);
      this.watch.abort();
      if (pending) this.follow();
      else this.app.refreshProfiles();
    }
    const text = pending ? `for the ${answer.wants_code ? "code" : "provider"}` : beyond(word(answer.state), answer.message ?? "");
    if (this.state.dataset.text !== `${answer.state} ${text}`) {
      this.state.dataset.text = `${answer.state} ${text}`;
      fill(this.state, badge(answer.state), " ", text);
    }
    const rest = answer.expires ? (Date.parse(answer.expires) - Date.now()) / 1000 : 0;
    setText(this.left, pending && rest > 0 ? `${seconds(rest)} left` : "");
  }

  follow() {
    const watch = new AbortController();
    this.watch = watch;
    poll(async () => {
      try {
        const answer = await this.app.api.get(this.path, {}, watch.signal);
        if (!watch.signal.aborted) this.show(answer);
      } catch (error) {
        if (watch.signal.aborted || !(error instanceof ApiError) || error.status !== 404) throw error;
        this.show({ state: "cancelled" });
      }
    }, () => SECONDS, watch.signal);
  }

  /** @param {any} answer @returns {Node[]} */
  pendingSteps(answer) {
    const cancel = h("button", { type: "button", on: { click: () => this.cancel() } }, "Cancel");
    if (answer.user_code) {
      const address = answer.verification_uri_complete ?? answer.verification_uri;
      return [
        h("ol", {}, h("li", {}, "Open ", outward(address, answer.verification_uri ?? address)), h("li", {}, "Enter this code:", h("span", { class: "user-code" }, h("code", {}, answer.user_code), copyButton(answer.user_code)))),
        h("div", { class: "row-of-buttons" }, cancel),
      ];
    }
    if (!answer.wants_code) {
      const open = answer.authorization_url ? h("p", {}, outward(answer.authorization_url, "Open the provider's page")) : "";
      return [h("div", {}, open, h("div", { class: "row-of-buttons" }, cancel))];
    }
    const code = h("input", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none", required: true });
    const form = h(
      "form", {},
      h("ol", {}, h("li", {}, outward(answer.authorization_url, "Open the provider's page"), " and log in"), h("li", {}, h("label", {}, "Paste the code, or the address of the page you end up on", code))),
      h("div", { class: "row-of-buttons" }, h("button", { type: "submit", class: "primary" }, "Finish"), cancel),
    );
    form.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.do(() => this.app.api.post(this.path, { code: code.value.trim() }, this.signal));
    });
    return [form];
  }

  cancel() {
    this.watch.abort();
    this.do(async () => {
      await this.app.api.remove(this.path, this.signal);
      return { state: "cancelled" };
    });
  }
}

/**
 * What a message says beyond the word of a state that stands before it.
 * @param {string} state
 * @param {string} message
 * @returns {string}
 */
function beyond(state, message) {
  if (!message.toLowerCase().startsWith(state.toLowerCase())) return message;
  return message.slice(state.length).replace(/^[:,]?\s*/, "");
}

/**
 * A link to the provider. What is not an address of the web is text: a link could run it.
 * @param {string | undefined} address
 * @param {string} text
 * @returns {Node}
 */
function outward(address, text) {
  const isOfWeb = address !== undefined && URL.canParse(address) && ["http:", "https:"].includes(new URL(address).protocol);
  if (!isOfWeb) return document.createTextNode(address ?? text);
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, text, icon("open"));
}

/** @param {string} text @returns {HTMLElement} */
function copyButton(text) {
  const words = h("span", {}, "Copy");
  const button = h("button", { type: "button", class: "small" }, icon("copy"), words);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(words, "Copied");
    } catch {
      setText(words, "Select the code and copy it");
    }
  });
  return button;
}
