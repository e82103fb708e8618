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
  const health = { state: "ok", since: at(0), last_success: at(Date.now() - 5000) };
  const failing = { state: "failing", last_failure: { time: at(Date.now()), error: "overloaded", http_status: 529 } };
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

const CLIENTS = ["research-notebooks", "support-bot", "sha256:9f2c41d07be3", "the-nightly-batch-of-the-documentation-team", "mobile-app"];
const TRAFFIC = [
  ["main", "gpt-5.2-mini", "gpt-5.2-mini-2026-01-31"], ["other", "claude-sonnet-5", "claude-sonnet-5-20260115"],
  ["vertex-frankfurt-for-the-insurance-team", "gemini-3-pro-preview", "gemini-3-pro-preview"],
  ["local", "local/qwen3-coder-480b-a35b-instruct-fp8-with-a-long-name-that-goes-on-and-on-2026-01-31", "qwen3-coder-480b-a35b-instruct-fp8-with-a-long-name-that-goes-on-and-on-2026-01-31"],
];
const ENDINGS = [
  [17, { status: "upstream_error", http_status: 503, error: "upstream_5xx" }],
  [23, { status: "rejected", http_status: 429, error: "rate_limit_exceeded", provider: undefined, upstream_model: undefined, tokens_in: undefined, tokens_out: undefined, cache_read_tokens: undefined, cost_usd: undefined, ttft_ms: undefined, latency_ms: 0.3 }],
  [31, { status: "client_abort", http_status: 499, error: "client_abort" }],
  [41, { status: "upstream_error", http_status: 504, error: "first_byte_timeout" }],
  [43, { status: "rejected", http_status: 501, error: "unsupported_provider_capability", latency_ms: 0.2 }],
];

/** The traffic of a busy gateway: several clients, long names, errors, refusals, costs that differ by a lot. */
export function busy(count = 900, span = 60 * MINUTE) {
  const end = Date.now() - 2000;
  return Array.from({ length: count }, (_, index) => {
    const wave = 1 + 0.5 * Math.sin(index / 40) + ((index * 7919) % 13) / 20;
    const [provider, model, upstream_model] = TRAFFIC[(index * 7) % 11 % TRAFFIC.length];
    const found = event(`busy-${index}`, {
      time: at(end - span * (1 - index / count)), provider, model, upstream_model, client: CLIENTS[(index * 5) % 7 % CLIENTS.length],
      key_hash: "0123456789ab", tokens_in: Math.round(2400 * wave), tokens_out: Math.round(310 * wave), cache_read_tokens: Math.round(700 * wave), reasoning_tokens: 40,
      cost_usd: provider === "local" ? undefined : Number((0.0123 * wave * (1 + (index % 5))).toFixed(6)), latency_ms: 900 * wave, ttft_ms: 240 * wave,
      route: index % 3 ? "chat_completions" : "messages", ...(index % 29 ? {} : { tokens_in: undefined, tokens_out: undefined, cache_read_tokens: undefined, cost_usd: undefined }),
    });
    return Object.assign(found, ENDINGS.find(([every]) => index % every === every - 1)?.[1]);
  });
}

/** A gateway with many kinds of providers, of which one fails and one has not been used. */
export function busyProfiles(more = {}) {
  const base = profiles();
  const key_hash = "00f8c2d1a9e4";
  const provider = (name, kind, rest) => ({ name, kind, family: "openai", defaults: [], capabilities: ["text"], health: { state: "ok" }, credentials: { mode: "api_key", key_hash, state: "ready" }, ...rest });
  const names = Array.from({ length: 40 }, (_, index) => ({ id: `gpt-5-${index}-mini`, provider: "main", upstream_model: `gpt-5.${index}-mini-2026-01-31`, capabilities: ["text", "tools", "vision"] }));
  return {
    ...base, prices: true, try_it: { as: "key" }, logins: [],
    providers: [
      ...base.providers,
      provider("vertex-frankfurt-for-the-insurance-team", "gemini", { family: "gemini", base_url: "https://europe-west3-aiplatform.googleapis.example/v1/projects/insurance-production-eu/locations/europe-west3/publishers/google", defaults: ["gemini"], capabilities: ["text", "embedding", "image_gen", "video_gen", "audio_speech", "audio_transcribe", "realtime", "platform"] }),
      provider("local", "openai_compat", { base_url: "http://10.0.0.7:8000/v1", credentials: { mode: "none", state: "ready" } }),
      provider("spare", "openai_compat", { base_url: "https://spare.example/v1", health: { state: "unknown" } }),
    ],
    aliases: [...base.aliases, { name: "an-alias-with-quite-a-long-name-for-the-nightly-batch", targets: ["vertex-frankfurt-for-the-insurance-team/gemini-3-pro-preview", "local/qwen3-coder-480b-a35b-instruct-fp8-with-a-long-name-that-goes-on-and-on-2026-01-31", "main/gpt-5.2-mini"] }],
    models: [
      { id: "gpt-5.2-mini", provider: "main", upstream_model: "gpt-5.2-mini-2026-01-31", capabilities: ["text", "tools"], price: { input: 0.25, output: 2, cache_read: 0.025 } },
      { id: "claude-sonnet-5", provider: "other", upstream_model: "claude-sonnet-5-20260115", capabilities: ["text", "tools"], price: { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 } },
      { id: "gemini-3-pro-preview", provider: "vertex-frankfurt-for-the-insurance-team", upstream_model: "gemini-3-pro-preview", capabilities: ["text"], price: { input: 1.25, output: 10 } },
      { id: "local/qwen3-coder-480b-a35b-instruct-fp8-with-a-long-name-that-goes-on-and-on-2026-01-31", provider: "local", upstream_model: "qwen3-coder-480b-a35b-instruct-fp8-with-a-long-name-that-goes-on-and-on-2026-01-31", capabilities: ["text"] },
      { id: "whisper-9", provider: "main", upstream_model: "whisper-9", capabilities: ["audio_transcribe"], price: { per_minute: 0.006 } },
      ...names,
    ],
    ...more,
  };
}
