/** Addresses of views: `#/name?parameter=value`, so that a link leads to the same view with the same range. */

/** @typedef {{ name: string, query: URLSearchParams }} Place */

/** @returns {Place} */
export function place() {
  const text = location.hash.replace(/^#\/?/, "");
  const [name, query] = text.split("?", 2);
  return { name: name || "overview", query: new URLSearchParams(query ?? "") };
}

/**
 * @param {string} name
 * @param {Record<string, string | undefined> | URLSearchParams} [query]
 * @returns {string}
 */
export function link(name, query = {}) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const text = new URLSearchParams(
    /** @type {[string, string][]} */ (pairs.filter(([, value]) => value !== undefined && value !== "")),
  ).toString();
  return `#/${name}${text ? `?${text}` : ""}`;
}

/**
 * Change parameters of the current view's address; an absent or empty value removes its parameter.
 * @param {Record<string, string | undefined>} changes
 * @param {{ quietly?: boolean }} [how] quietly: neither a step of the browser's history nor a call of the view
 */
export function change(changes, { quietly = false } = {}) {
  const { name, query } = place();
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  if (quietly) history.replaceState(history.state, "", link(name, query));
  else location.hash = link(name, query);
}
