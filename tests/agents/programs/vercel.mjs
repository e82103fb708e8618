// One conversation with the Vercel AI SDK: a task as JSON in the first argument, what came of it as JSON on stdout.
//
//   {url, key, model, stream, store, thinks, turns: [text, …]}
//
// Each turn goes on with the messages that the SDK made of those before.  `store` is left out where it is null.
// The answer is {turns: [{text, reasoning, calls, finish}, …]} or, at the first error, {error: {status, body}}.
import { createRequire } from 'node:module';

const load = createRequire(`${process.env.MODULES}/`);
const { generateText, jsonSchema, stepCountIs, streamText, tool } = load('ai');
const { createOpenAI } = load('@ai-sdk/openai');

const task = JSON.parse(process.argv[2]);
const openai = createOpenAI({ baseURL: `${task.url}/v1`, apiKey: task.key });
const city = jsonSchema({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
});
const tools = {
  get_weather: tool({ description: 'The weather', inputSchema: city, execute: ({ city }) => `rain in ${city}` }),
  get_time: tool({ description: 'The time', inputSchema: city, execute: ({ city }) => `noon in ${city}` }),
};

async function answer(messages) {
  const request = {
    model: openai(task.model),
    messages,
    tools,
    stopWhen: stepCountIs(5),
    maxRetries: 0,
    providerOptions: {
      openai: {
        ...(task.store === null ? {} : { store: task.store }),
        ...(task.thinks ? { reasoningSummary: 'auto', forceReasoning: true } : {}),
      },
    },
  };
  if (!task.stream) return generateText(request);
  let failure = null;
  const result = streamText({ ...request, onError: ({ error }) => { failure = error; } });
  await result.consumeStream();
  if (failure !== null) throw failure;
  return {
    text: await result.text,
    steps: await result.steps,
    response: await result.response,
    finishReason: await result.finishReason,
  };
}

const messages = [];
const turns = [];
const answered = { turns };
for (const text of task.turns) {
  messages.push({ role: 'user', content: text });
  try {
    const result = await answer(messages);
    messages.push(...result.response.messages);
    turns.push({
      text: result.text,
      reasoning: result.steps.map((step) => step.reasoningText ?? ''),
      calls: result.steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input])),
      finish: result.finishReason,
    });
  } catch (error) {
    answered.error = { status: error.statusCode ?? null, body: error.responseBody ?? String(error) };
    break;
  }
}
console.log(JSON.stringify(answered));
