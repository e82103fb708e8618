/** A week of requests, for scenarios about what was before the page was opened. */

import { at, event } from "./samples.mjs";

const MODELS = ["gpt-x", "claude-sonnet-5", "fast", "gemini-3-flash", "meta-llama/llama-4-scout-17b-16e-instruct"];
const CLIENTS = ["alice", "ci", "data-science", "sha256:0123456789ab", "billing-service-of-the-team-in-frankfurt"];
const PROVIDERS = ["main", "other", "the-team-in-frankfurt"];
const ENDS = [
  { status: "upstream_error", http_status: 503, error: "upstream_5xx", error_message: "The model is overloaded. Please try again later, or contact support with the ID of this request." },
  { status: "rejected", http_status: 429, error: "rate_limit_exceeded", latency_ms: 0.4, ttft_ms: undefined, tokens_in: undefined, tokens_out: undefined, cost_usd: undefined, cache_read_tokens: undefined },
  { status: "client_abort", http_status: 499, error: "client_abort" },
  { status: "upstream_error", http_status: 400, error: "upstream_4xx", error_message: "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-5" },
];

/** Some 1,500 requests over a week, of several clients, models and providers, of which a seventh did not end well. */
export function week(number = 1500) {
  return Array.from({ length: number }, (_, index) => event(`${index}`, {
    request_id: `req_${String(index).padStart(6, "0")}_5f2b8c1d9e7a4f60`,
    time: at(Date.now() - 1000 - index * index * (7 * 86_400_000 / (number * number))),
    model: MODELS[index % 5], client: CLIENTS[(index >> 1) % 5], provider: PROVIDERS[index % 3], route: index % 4 ? "chat" : "messages_count_tokens",
    tokens_in: 900 + 37 * index, tokens_out: 20 + ((index * 97) % 900), cost_usd: 0.0004 * (1 + (index % 70)), latency_ms: 300 + ((index * 131) % 9000), ttft_ms: 120 + ((index * 57) % 900),
    upstream_request_id: `up_${index}_0c9d8e7f`, dropped_fields: index % 6 ? undefined : ["logit_bias", "messages[].content[].cache_control", "parallel_tool_calls"],
    key_hash: "0123456789ab", ...(index % 7 === 3 ? ENDS[(index / 7 | 0) % 4] : {}),
  }));
}
