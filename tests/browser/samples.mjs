/** What the stub is told: a gateway with providers, and events of the last minutes. */

const MINUTE = 60_000;

export function at(milliseconds) {
  return new Date(milliseconds).toISOString();
}

export function event(number, more = {}) {
  return {
    request_id: `request-${number}`, time: at(Date.now() - 1000), dialect: "openai", route: "chat", provider: "main",
    model: "gpt-x", upstream_model: "gpt-x-1", modality: "text", transport: "http", tokens_in: 1000, tokens_out: 100,
    cache_read_tokens: 250, cost_usd: 0.01, stream: true, status: "ok", http_status: 200, latency_ms: 800,
    ttft_ms: 200, attempts: 1, client: "alice", ...more,
  };
}

/** Forty events over the last half hour, of which eight failed. */
export function history() {
  return Array.from({ length: 40 }, (_, index) => event(index, {
    time: at(Date.now() - 30 * MINUTE + index * 0.7 * MINUTE),
    ...(index % 2 ? { client: "bob", provider: "other", model: "claude-y", latency_ms: 1600 } : {}),
    ...(index % 5 ? {} : { status: "upstream_error", http_status: 502, error: "overloaded" }),
  }));
}

export function profiles(more = {}) {
  const health = { state: "ok", since: at(0), last_success: at(Date.now() - 5000), requests: 40, failed: 8 };
  const failing = { state: "failing", requests: 9, failed: 9, last_failure: { time: at(Date.now()), error: "overloaded", http_status: 529 } };
  return {
    service: "mgw", version: "9.9.9", started: at(Date.now() - 3600_000), generation: 2, loaded: at(Date.now() - 60_000), draining: false,
    in_flight: 3, sessions: 1, max_sessions: 8,
    providers: [
      { name: "main", kind: "openai", family: "openai", base_url: "https://main.example/v1", defaults: ["openai"], capabilities: ["text", "embedding"], health, credentials: { mode: "static", key_hash: "0123456789ab", state: "ready" } },
      { name: "other", kind: "anthropic", family: "anthropic", base_url: "https://other.example", defaults: [], capabilities: ["text"], health: failing, credentials: { mode: "oauth2", entry: "team", state: "resting", accounts: [{ name: "one", state: "ready", expires: at(Date.now() + 3600_000) }, { name: "two", state: "resting", rests_until: at(Date.now() + 60_000) }] } },
    ],
    aliases: [{ name: "fast", targets: ["main/gpt-x", "other/claude-y"] }],
    models: [{ id: "gpt-x", provider: "main", upstream_model: "gpt-x-1", capabilities: ["text"] }, { id: "claude-y", provider: "other", upstream_model: "claude-y", capabilities: ["text"], context_window: 200_000 }],
    logins: [{ entry: "team", profile: "vendor", flows: ["device", "pkce"], state: "signed_out" }],
    ...more,
  };
}
