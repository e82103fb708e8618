/** Sending one request of the page, and reading its response as it comes. */

import { errorOf } from "./dialects.js";

/** Characters that are kept of a response, of its text and of its events alike. */
const MOST_CHARACTERS = 1_000_000;

/** A response, which grows while it comes. */
export class Exchange {
  /** @param {import("./dialects.js").Dialect} dialect */
  constructor(dialect) {
    this.dialect = dialect;
    this.begun = performance.now();
    /** @type {"waiting" | "streaming" | "complete" | "stopped" | "failed"} */
    this.state = "waiting";
    /** @type {number | undefined} */
    this.status = undefined;
    this.requestId = "";
    this.dropped = "";
    /** @type {number | undefined} milliseconds until the first byte of the body */
    this.firstByte = undefined;
    /** @type {number | undefined} milliseconds until the end */
    this.total = undefined;
    this.text = "";
    /** What came, as it came. */
    this.raw = "";
    /** @type {{ message: string, code: string } | undefined} */
    this.error = undefined;
    this.truncated = false;
    this.pending = "";
  }

  get elapsed() {
    return this.total ?? performance.now() - this.begun;
  }

  get isOver() {
    return this.total !== undefined;
  }

  /**
   * Send it, and read the response to its end; never throws.
   * @param {string} url
   * @param {RequestInit} init
   * @param {AbortSignal} signal
   * @param {() => void} changed
   */
  async run(url, init, signal, changed) {
    try {
      const response = await fetch(url, { ...init, method: "POST", signal, cache: "no-store", redirect: "error" });
      this.status = response.status;
      this.requestId = response.headers.get("X-Gateway-Request-Id") ?? "";
      this.dropped = response.headers.get("X-Gateway-Dropped-Fields") ?? "";
      this.state = "streaming";
      changed();
      const isStream = (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
      await this.read(response, isStream, changed);
      if (!isStream) this.takeWhole();
      this.state = response.ok && !this.error ? "complete" : "failed";
    } catch (error) {
      this.state = signal.aborted ? "stopped" : "failed";
      if (!signal.aborted) this.error ??= { message: this.status === undefined ? "The gateway cannot be reached." : "The response was interrupted.", code: "" };
    }
    this.total = performance.now() - this.begun;
    changed();
  }

  /**
   * End it before it was sent.
   * @param {number} status
   * @param {string} message
   * @param {boolean} isStopped
   */
  refuse(status, message, isStopped) {
    this.state = isStopped ? "stopped" : "failed";
    this.status = status || undefined;
    if (!isStopped) this.error = { message, code: "" };
    this.total = performance.now() - this.begun;
  }

  /** @param {Response} response @param {boolean} isStream @param {() => void} changed */
  async read(response, isStream, changed) {
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) break;
      this.firstByte ??= performance.now() - this.begun;
      this.raw = this.grown(this.raw, value ?? "");
      if (isStream) this.takeLines(value ?? "");
      changed();
    }
  }

  /**
   * Take a piece of an event stream: each of these APIs has one JSON document in a line of its own.
   * @param {string} piece
   */
  takeLines(piece) {
    const lines = (this.pending + piece).split(/\r\n|\n|\r/);
    this.pending = this.within(lines.pop() ?? "");
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const event = parsed(line.slice("data:".length));
      if (event === undefined) continue;
      this.error ??= errorOf(event);
      const delta = this.dialect.delta(event);
      if (typeof delta === "string") this.text = this.grown(this.text, delta);
    }
  }

  takeWhole() {
    const answer = parsed(this.raw);
    if (answer === undefined) return;
    this.error = errorOf(answer);
    this.text = this.dialect.text(answer) ?? "";
    this.raw = JSON.stringify(answer, undefined, 2);
  }

  /** @param {string} text @param {string} more @returns {string} */
  grown(text, more) {
    return this.within(text + more);
  }

  /** @param {string} text @returns {string} */
  within(text) {
    if (text.length <= MOST_CHARACTERS) return text;
    this.truncated = true;
    return text.slice(0, MOST_CHARACTERS);
  }
}

/** @param {string} text @returns {any} JSON, or undefined */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

const KEY_ADVICE = "Enter a gateway key that is configured in edge_auth.";
/** What to do about an error, by its code and then by its status. */
const ADVICE = /** @type {Record<string, string>} */ ({
  no_provider_key: "Set api_key or api_key_env for the provider, then reload the configuration.",
  model_not_found: "Choose a model from the list, or enter provider/model.",
  unsupported_provider_capability: "Choose another API, or turn on its translation.",
  unsupported_modality: "Turn on the capability of the provider, or choose another model.",
  credential_source_failed: "Look at the provider's credentials under Providers and at the log.",
  rate_limit_exceeded: "Wait and send again, or raise the limits of the key.",
  insufficient_quota: "Raise the limit on cost that the message names, or wait until it resets.",
  401: "Check the provider's credentials under Providers.",
  403: "The provider does not allow this. Check the account and the model.",
  404: "Check the model name. The list shows models that the gateway knows.",
  429: "Wait and send again, or check the limits of the key and of the provider's account.",
  502: "Check base_url and the state of the provider under Providers, and the log.",
  503: "The gateway or the provider is overloaded or shutting down. Send again later.",
  504: "The provider did not respond in time. See timeouts in the configuration.",
});

/** @param {Exchange} exchange @returns {string} */
export function adviceFor(exchange) {
  if (exchange.status === 401 && exchange.error?.message.includes("gateway key")) return KEY_ADVICE;
  return ADVICE[exchange.error?.code ?? ""] ?? ADVICE[String(exchange.status)] ?? "";
}

/**
 * The request as a command; the key is a variable of the shell.
 * @param {string} url
 * @param {Record<string, string>} headers
 * @param {object} body
 * @param {{ hasKey: boolean, stream: boolean }} how
 * @returns {string}
 */
export function curlOf(url, headers, body, { hasKey, stream }) {
  const stated = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  if (hasKey) stated.unshift('-H "Authorization: Bearer $GATEWAY_KEY"');
  return [`curl ${stream ? "-N " : ""}${quoted(url)}`, ...stated, `-d ${quoted(JSON.stringify(body))}`].join(" \\\n  ");
}

/** @param {string} text @returns {string} one word of a shell */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
