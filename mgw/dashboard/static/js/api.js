/** Calls of the dashboard's API, by addresses relative to the page. */

/** What the API refused, with its message; `status` 0: the gateway was not reached. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const SECONDS = 20;
/** What a large table is asked for takes the gateway as long as this, since two queries may wait for others. */
const QUERY_SECONDS = 90;
const QUERIES = new Set(["usage", "requests"]);

/** The calls; `heard` is told after each whether the gateway was reached, and the status of the answer. */
export class Api {
  /** @param {(status: number) => void} heard */
  constructor(heard) {
    this.heard = heard;
  }

  /**
   * @param {string} path below v1/dashboard/
   * @param {Record<string, string | number | undefined>} [query]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  get(path, query = {}, signal) {
    return this.call("GET", path, query, undefined, signal);
  }

  /**
   * @param {string} path
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  post(path, body, signal) {
    return this.call("POST", path, {}, body, signal);
  }

  /**
   * @param {string} path
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  remove(path, signal) {
    return this.call("DELETE", path, {}, undefined, signal);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Record<string, string | number | undefined>} query
   * @param {object | undefined} body
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<any>}
   * @throws {ApiError}
   */
  async call(method, path, query, body, signal) {
    const limit = AbortSignal.timeout((QUERIES.has(path) ? QUERY_SECONDS : SECONDS) * 1000);
    /** @type {RequestInit} */
    const init = {
      method,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: body ? { "Content-Type": "application/json" } : {},
      body: body && JSON.stringify(body),
    };
    let response;
    try {
      response = await fetch(address(path, query), init);
    } catch (error) {
      if (signal?.aborted) throw error;
      this.heard(0);
      throw new ApiError(0, "The gateway cannot be reached.");
    }
    this.heard(response.status);
    const answer = response.status === 204 ? undefined : await response.json().catch(() => undefined);
    if (response.ok) return answer;
    throw new ApiError(response.status, answer?.error?.message ?? `The gateway returned status ${response.status}.`);
  }
}

/**
 * A message of the API, which is a fragment in lower case, as it stands alone on the page.
 * @param {string} message
 * @returns {string}
 */
export function sentence(message) {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/**
 * @param {string} path
 * @param {Record<string, string | number | undefined>} query
 * @returns {string}
 */
export function address(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return `v1/dashboard/${path}${text ? `?${text}` : ""}`;
}
