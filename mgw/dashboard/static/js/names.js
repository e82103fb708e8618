/** What groups and keys are called: a digest says what it is the digest of. */

import { word } from "./status.js";

/** @typedef {{ label: string, title: string }} Name */

/** How requests can be grouped: the parameter of the API, and the word for it. */
export const GROUPINGS = /** @type {[string, string][]} */ ([
  ["status", "Status"], ["provider", "Provider"], ["model", "Model"], ["client", "Client"], ["error", "Error"], ["route", "Route"], ["key", "Provider key"], ["group", "Client group"],
]);

/** @type {Record<string, string>} what a group is called that has no key */
const WITHOUT = {
  status: "No status", provider: "No provider", model: "No model", client: "No gateway key", error: "No error", route: "No route", key: "No provider key", group: "No client group",
};
const DIGEST = "sha256:";

/**
 * A client, by the name of its gateway key, or by the digest of one that has no name.
 * @param {string} client
 * @returns {Name}
 */
export function clientName(client) {
  if (!client.startsWith(DIGEST)) return { label: client, title: client };
  const digits = client.slice(DIGEST.length);
  return { label: `Gateway key ${digits}`, title: `A gateway key without a name: its SHA-256 begins with ${digits}. Give it a name under edge_auth.keys.` };
}

/**
 * A provider's credential, by the digest of it that events have.
 * @param {string} hash
 * @param {any[]} providers of `profiles`
 * @returns {Name}
 */
export function keyName(hash, providers) {
  const owners = providers.filter(({ credentials }) => credentials?.key_hash === hash).map(({ name }) => name);
  if (owners.length) return { label: `${owners.join(", ")}: key ${hash}`, title: `The credential of the provider ${owners.join(", ")}: its SHA-256 begins with ${hash}` };
  return { label: `Provider key ${hash}`, title: `A credential that was sent to a provider: an account of a pool, a client's own, or one that is no longer configured. Its SHA-256 begins with ${hash}` };
}

/**
 * @param {string} by
 * @param {string | undefined} key absent: the group of what has none
 * @param {any[]} [providers] of `profiles`
 * @returns {Name}
 */
export function groupName(by, key, providers = []) {
  if (key === undefined) return { label: WITHOUT[by] ?? "None", title: "" };
  if (by === "status") return { label: word(key), title: word(key) };
  if (by === "client") return clientName(key);
  if (by === "key" && key !== "other") return keyName(key, providers);
  return { label: key, title: key };
}
