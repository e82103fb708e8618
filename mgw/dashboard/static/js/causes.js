/** Why a request did not end well, in words: whose side it was, and what the word in its event means. */

/** @type {Record<string, string>} what an outcome says, by the event's status */
const SIDES = {
  ok: "The provider answered.",
  upstream_error: "The provider failed.",
  rejected: "mgw rejected the request.",
  client_abort: "The client left before the response was complete.",
};

/** @type {Record<string, string>} words of the event's `error`; each sentence stands alone */
const CAUSES = {
  refused_connection: "No connection could be made: nothing listens at the provider's address, or no route leads there.",
  dns: "The provider's host name has no address.",
  tls: "The TLS handshake failed, or the provider's certificate is not trusted.",
  connect_timeout: "The provider did not accept a connection in time.",
  first_byte_timeout: "The provider sent no response in time.",
  idle_timeout: "The provider was silent for too long in the middle of the response.",
  reset: "The provider closed the connection before the complete response head arrived.",
  not_http: "The provider's port sent something that is not HTTP.",
  truncated: "The response ended early.",
  unreadable: "The response does not follow the provider's API.",
  upstream_broken: "The provider's response could not be used.",
  upstream_too_slow: "The provider sent no response in time.",
  credential: "No credential could be obtained for the provider.",
  credential_source_failed: "No credential could be obtained for the provider.",
  upstream_4xx: "The provider returned a 4xx status.",
  upstream_5xx: "The provider returned a 5xx status.",
  upstream_error_event: "The provider ended its stream with an error.",
  limit: "The response is larger than the gateway buffers.",
  client_abort: "The client closed the connection.",
  client_timeout: "The client stopped sending in the middle of the request.",
  request_timeout: "The client stopped sending in the middle of the request.",
  malformed: "The request is invalid: the message that the client received says what to change.",
  invalid_json: "The request's body is not valid JSON.",
  invalid_api_key: "The request has no valid gateway key.",
  invalid_token: "The token of an identity provider is not valid here.",
  access_denied: "The token is valid, but no rule admits it.",
  identity_provider_unavailable: "The public keys of the token's issuer were not available.",
  revoked: "The client's key expired, was disabled or was removed while the request was in progress.",
  no_provider_key: "The provider has no credential, neither configured nor sent by the client.",
  unsupported_modality: "The provider's capabilities do not include this kind of request.",
  unsupported_provider_capability: "Providers of this kind do not support this request.",
  model_not_found: "No such model is available to this key.",
  not_found: "The gateway has no such endpoint.",
  method_not_allowed: "The endpoint does not accept this method.",
  websocket_not_supported: "This path is not available over WebSocket.",
  websocket_required: "This path requires a WebSocket.",
  origin_not_allowed: "A web page from another origin sent the request.",
  misdirected_request: "The request named a host that is not the gateway's.",
  headers_too_large: "The request's headers are too large.",
  request_too_large: "The request's body is too large.",
  too_many_sessions: "All realtime sessions are in use.",
  rate_limit_exceeded: "The client, a group that it is in, or the gateway has reached a limit.",
  insufficient_quota: "The client, a group that it is in, or the gateway has reached a limit on cost.",
  model_not_priced: "The model has no price, and the client is under a limit on cost.",
  route_not_priced: "No response reports the cost of such work, and the client is under a limit on cost.",
  not_implemented: "The gateway does not support this.",
  no_account_available: "No account of the pool is available.",
  internal_error: "The gateway failed: the log has the reason.",
  overloaded: "The gateway was overloaded.",
  draining: "The gateway was shutting down.",
};

/** A 4xx of the provider is about the request, so "failed" would blame the wrong side. */
const REFUSED = "The provider rejected the request.";

/** @param {any} event @returns {string} whose side it was */
export function side(event) {
  if (event.status === undefined) return "The request is in progress.";
  if (event.status === "ok" && event.provider === undefined) return "mgw answered.";
  if (event.error === "upstream_4xx") return REFUSED;
  return SIDES[event.status] ?? event.status;
}

/** @param {string | undefined} error @returns {string} a sentence, or nothing for a word that explains itself */
export function explanation(error) {
  return Object.hasOwn(CAUSES, error ?? "") ? CAUSES[String(error)] : "";
}
