/** The APIs that the page can use: how a request is written, and where the text of a response stands. */

/**
 * @typedef {object} Prompt
 * @property {string} model
 * @property {string} system
 * @property {string} prompt
 * @property {number | undefined} maxTokens
 * @property {boolean} stream
 * @property {boolean} newLimit whether the model's provider takes OpenAI's newer name of the limit
 */
/**
 * @typedef {object} Dialect
 * @property {string} name
 * @property {(prompt: Prompt) => string} path relative to the page
 * @property {Record<string, string>} headers
 * @property {(prompt: Prompt) => object} body
 * @property {(answer: any) => string | undefined} text of a whole response
 * @property {(event: any) => string | undefined} delta of one event of a stream
 */

const MESSAGES_LIMIT = 1024;

/** @type {Record<string, Dialect>} */
export const DIALECTS = {
  chat: {
    name: "Chat Completions",
    path: () => "v1/chat/completions",
    headers: {},
    body: ({ model, system, prompt, maxTokens, stream, newLimit }) => ({
      model,
      messages: [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: prompt }],
      ...(maxTokens && { [newLimit ? "max_completion_tokens" : "max_tokens"]: maxTokens }),
      ...(stream && { stream: true, stream_options: { include_usage: true } }),
    }),
    text: (answer) => answer.choices?.[0]?.message?.content,
    delta: (event) => event.choices?.[0]?.delta?.content,
  },
  responses: {
    name: "Responses",
    path: () => "v1/responses",
    headers: {},
    body: ({ model, system, prompt, maxTokens, stream }) => ({
      model,
      ...(system && { instructions: system }),
      input: prompt,
      ...(maxTokens && { max_output_tokens: maxTokens }),
      store: false,
      ...(stream && { stream: true }),
    }),
    text: (answer) => joined(answer.output?.flatMap((/** @type {any} */ item) => item.content ?? [])),
    delta: (event) => (event.type === "response.output_text.delta" ? event.delta : undefined),
  },
  messages: {
    name: "Messages",
    path: () => "v1/messages",
    headers: { "anthropic-version": "2023-06-01" },
    body: ({ model, system, prompt, maxTokens, stream }) => ({
      model,
      max_tokens: maxTokens ?? MESSAGES_LIMIT,
      ...(system && { system }),
      messages: [{ role: "user", content: prompt }],
      ...(stream && { stream: true }),
    }),
    text: (answer) => joined(answer.content),
    delta: (event) => event.delta?.text,
  },
  gemini: {
    name: "Gemini",
    path: ({ model, stream }) => `v1beta/models/${model.split("/").map(encodeURIComponent).join("/")}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    headers: {},
    body: ({ system, prompt, maxTokens }) => ({
      ...(system && { systemInstruction: { parts: [{ text: system }] } }),
      contents: [{ role: "user", parts: [{ text: prompt }] }],
      ...(maxTokens && { generationConfig: { maxOutputTokens: maxTokens } }),
    }),
    text: candidateText,
    delta: candidateText,
  },
};

/** @param {any} answer @returns {string | undefined} */
function candidateText(answer) {
  return joined(answer.candidates?.[0]?.content?.parts?.filter((/** @type {any} */ part) => !part.thought));
}

/** @param {any[] | undefined} parts @returns {string | undefined} */
function joined(parts) {
  return parts?.map((part) => (typeof part?.text === "string" ? part.text : "")).join("");
}

/**
 * The error that a response or an event of any of these APIs states.
 * @param {any} answer
 * @returns {{ message: string, code: string } | undefined}
 */
export function errorOf(answer) {
  const error = answer?.error ?? answer?.response?.error ?? (answer?.type === "error" ? answer : undefined);
  if (!error || typeof error.message !== "string") return undefined;
  return { message: error.message, code: String(error.code ?? error.type ?? error.status ?? "") };
}

/**
 * @param {any} profiles
 * @param {string} model
 * @returns {boolean} whether the provider that a model name leads to is of kind openai, as far as the page can tell
 */
export function takesNewLimit(profiles, model) {
  const target = profiles.aliases.find((/** @type {any} */ alias) => alias.name === model)?.targets[0] ?? model;
  const named = profiles.models.find((/** @type {any} */ entry) => entry.id === target)?.provider ?? target.split("/", 1)[0];
  const provider = profiles.providers.find((/** @type {any} */ { name }) => name === named)
    ?? profiles.providers.find((/** @type {any} */ { defaults }) => defaults.includes("openai"));
  return provider?.kind === "openai";
}
