/** Try it: sends a request through the gateway's own routes, and shows what belongs to it. Nothing is stored. */

import { ApiError, sentence } from "../api.js";
import { copyButton } from "../copy.js";
import { facts, heading, panel, segments } from "../controls.js";
import { fill, h, setText } from "../dom.js";
import { UNKNOWN, approximate, dollars, milliseconds, whole } from "../format.js";
import { requestLink } from "../links.js";
import { paced } from "../pace.js";
import { badge } from "../status.js";
import { Form } from "../try_it/form.js";
import { Exchange, adviceFor, curlOf } from "../try_it/send.js";

const KEPT_EVENTS = 100;
const EVENT_SECONDS = 5;
const STATES = { waiting: "Waiting for the gateway", streaming: "Receiving", complete: "Complete", stopped: "Stopped", failed: "Failed" };

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  const off = h("p", { class: "notice", hidden: true }, "This view is off. To turn it on, set dashboard.try_it to true and reload the configuration.");
  const body = h("div");
  root.append(heading("Try it"), off, body);
  /** @type {TryIt | undefined} */
  let view;
  app.profiles.watch((profiles) => {
    if (!profiles) return;
    const isOffered = profiles.try_it !== undefined;
    off.hidden = isOffered;
    body.hidden = !isOffered;
    if (!isOffered) return;
    if (view) view.form.update(profiles);
    else view = new TryIt(body, app, profiles, signal);
  }, signal);
}

class TryIt {
  /**
   * @param {HTMLElement} root
   * @param {import("../main.js").App} app
   * @param {any} profiles
   * @param {AbortSignal} signal of the view
   */
  constructor(root, app, profiles, signal) {
    this.app = app;
    this.signal = signal;
    /** @type {Exchange | undefined} */
    this.exchange = undefined;
    /** @type {AbortController | undefined} */
    this.stopper = undefined;
    /** @type {Map<string, any>} the last usage events by their ids: one may come before the page knows its own */
    this.events = new Map();
    this.form = new Form(profiles, () => this.send(), () => this.stopper?.abort(), () => this.drawRequest());
    this.request = paneOf("Request", [["curl", "curl"], ["json", "JSON"]]);
    this.response = paneOf("Response", [["text", "Text"], ["raw", "Raw"]]);
    this.state = h("span", { class: "note", role: "status" });
    this.problem = h("div", { class: "notice bad", role: "alert", hidden: true });
    this.measures = h("div");
    this.usage = h("div", { class: "try-usage" });
    root.className = "try";
    root.append(
      panel("New request", [], this.form.element),
      h("div", { class: "try-results" },
        panel("Response", [this.state, this.response.choice, this.response.copy], this.problem, this.measures, this.response.element),
        panel("Usage event", [], this.usage),
        panel("Request", [this.request.choice, this.request.copy], this.request.element)),
    );
    this.draw = paced(() => this.drawNow(), signal, 100);
    app.feed.on("usage", (event) => this.keepEvent(event), signal);
    signal.addEventListener("abort", () => this.stopper?.abort(), { once: true });
    this.drawRequest();
    this.drawNow();
  }

  async send() {
    if (this.stopper) return;
    const { dialect, prompt } = this.form.request();
    const key = this.form.takeKey();
    const init = { headers: { ...headersOf(dialect), ...(key && { Authorization: `Bearer ${key}` }) }, body: JSON.stringify(dialect.body(prompt)), credentials: /** @type {RequestCredentials} */ (key ? "omit" : "same-origin") };
    const stopper = new AbortController();
    const exchange = new Exchange(dialect);
    this.stopper = stopper;
    this.exchange = exchange;
    this.drawRequest();
    this.form.setRunning(true);
    this.drawNow();
    try {
      if (!key && this.form.profiles.try_it.as === "client") await this.app.api.post("try", {}, stopper.signal);
      exchange.begun = performance.now();
      await exchange.run(dialect.path(prompt), init, stopper.signal, this.draw);
    } catch (error) {
      exchange.refuse(error instanceof ApiError ? error.status : 0, error instanceof ApiError ? sentence(error.message) : "", stopper.signal.aborted);
    }
    this.stopper = undefined;
    this.form.setRunning(false);
    this.drawNow();
    setTimeout(() => this.findEvent(exchange), EVENT_SECONDS * 1000);
  }

  /** @param {any} event */
  keepEvent(event) {
    this.events.set(event.request_id, event);
    if (this.events.size > KEPT_EVENTS) this.events.delete(this.events.keys().next().value ?? "");
    if (event.request_id === this.exchange?.requestId) this.draw();
  }

  /** Ask for an event that the feed has not brought. @param {Exchange} exchange */
  async findEvent(exchange) {
    const id = exchange.requestId;
    if (this.signal.aborted || exchange !== this.exchange || !id || this.events.has(id)) return;
    const answer = await this.app.api.get("requests", { request_id: id, limit: 1 }, this.signal).catch(() => undefined);
    const found = answer?.requests?.find((/** @type {any} */ row) => row.request_id === id && row.status !== undefined);
    if (found) this.keepEvent(found);
    else this.drawUsage(true);
  }

  drawRequest() {
    const { dialect, prompt } = this.form.request();
    const body = dialect.body(prompt);
    const url = new URL(dialect.path(prompt), location.href).href;
    const hasKey = this.form.profiles.try_it.as !== "anyone";
    setText(this.request.panes.curl, curlOf(url, headersOf(dialect), body, { hasKey, stream: prompt.stream }));
    setText(this.request.panes.json, JSON.stringify(body, undefined, 2));
  }

  drawNow() {
    const exchange = this.exchange;
    setText(this.state, exchange ? STATES[exchange.state] : "");
    this.problem.hidden = !exchange || exchange.state !== "failed";
    if (!exchange) {
      setText(this.response.panes.text, "Send a prompt to see the response here.");
    } else {
      setText(this.response.panes.text, exchange.text || (exchange.state === "complete" ? "The response contains no text; Raw shows all of it." : ""));
      setText(this.response.panes.raw, exchange.raw);
      if (exchange.state === "failed") fill(this.problem, h("p", {}, failureOf(exchange)), h("p", {}, adviceFor(exchange)));
    }
    fill(this.measures, exchange ? measuresOf(exchange) : "");
    this.drawUsage(false);
  }

  /** @param {boolean} isLate */
  drawUsage(isLate) {
    const exchange = this.exchange;
    const event = exchange && this.events.get(exchange.requestId);
    if (event) fill(this.usage, usageOf(event));
    else fill(this.usage, h("p", { class: "hint" }, whyNoEvent(exchange, isLate)));
  }
}

/** @param {Exchange | undefined} exchange @param {boolean} isLate @returns {string} */
function whyNoEvent(exchange, isLate) {
  if (!exchange) return "Tokens and cost appear here when the request has completed.";
  if (!exchange.isOver) return "The event is recorded when the request has completed.";
  if (!exchange.requestId) return exchange.state === "stopped" ? "The request was stopped before the gateway sent its ID. Its event is in Requests." : "The request left no event.";
  return isLate ? "No event was found. Requests without a valid gateway key leave none." : "Waiting for the event…";
}

/** @param {import("../try_it/dialects.js").Dialect} dialect @returns {Record<string, string>} */
function headersOf(dialect) {
  return { "Content-Type": "application/json", ...dialect.headers };
}

/** @param {Exchange} exchange @returns {string} */
function failureOf(exchange) {
  const message = exchange.error?.message ?? "The response has no error message; Raw shows all of it.";
  return exchange.status ? `${exchange.status}: ${message}` : message;
}

/** @param {Exchange} exchange @returns {HTMLElement} */
function measuresOf(exchange) {
  const elements = facts([
    ["Status", exchange.status === undefined ? UNKNOWN : String(exchange.status)],
    ["Time to first byte", milliseconds(exchange.firstByte)],
    ["Total time", exchange.isOver ? milliseconds(exchange.elapsed) : UNKNOWN],
    ["Request ID", exchange.requestId && h("code", {}, exchange.requestId)],
    ["Dropped fields", exchange.dropped || (exchange.status === undefined ? UNKNOWN : "none")],
    ["Note", exchange.truncated ? "The response is longer than this page keeps; its end is not shown." : undefined],
  ]);
  elements.classList.add("measures");
  return elements;
}

/** @param {any} event @returns {HTMLElement} */
function usageOf(event) {
  return facts([
    ["Status", h("span", { class: "outcome" }, badge(event.status), event.http_status === undefined ? "" : h("span", { class: "code" }, String(event.http_status)))],
    ["Error", event.error],
    ["Error message", event.error_message],
    ["Client", event.client],
    ["Provider", event.provider],
    ["Upstream model", event.upstream_model],
    ["Input tokens", approximate(event.tokens_in, event.tokens_in_estimated, whole)],
    ["Output tokens", approximate(event.tokens_out, event.tokens_out_estimated, whole)],
    ["Reasoning tokens", event.reasoning_tokens === undefined ? undefined : whole(event.reasoning_tokens)],
    ["Cost", dollars(event.cost_usd)],
    ["Latency", milliseconds(event.latency_ms)],
    ["Dropped fields", event.dropped_fields?.join(", ")],
    ["Details", h("a", { href: requestLink(event.request_id) }, "Open in Requests")],
  ]);
}

/**
 * Two texts of which one is seen, and the choice between them.
 * @param {string} name
 * @param {[string, string][]} choices
 * @returns {{ element: HTMLElement, choice: HTMLElement, copy: HTMLElement, panes: Record<string, HTMLElement> }}
 */
function paneOf(name, choices) {
  const panes = Object.fromEntries(choices.map(([value, words]) => [value, h("pre", { class: "pane", tabindex: "0", role: "region", "aria-label": `${name}: ${words}` })]));
  let shown = choices[0][0];
  const choose = (/** @type {string} */ value) => {
    shown = value;
    choice.mark(value);
    for (const [other] of choices) panes[other].hidden = other !== value;
  };
  const choice = segments(`${name} shown as`, choices, choose);
  choose(shown);
  const copy = copyButton(`the ${name.toLowerCase()}`, () => panes[shown].textContent ?? "");
  return { element: h("div", {}, Object.values(panes)), choice: choice.element, copy, panes };
}
