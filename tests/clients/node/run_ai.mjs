// Plays scenarios with the Vercel AI SDK; the first argument is the provider: compatible, openai or openrouter.

import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { MODEL, PARAMETERS, failure, playAll } from "./report.mjs";

const PROVIDERS = {
  compatible: (baseURL, includeUsage) =>
    createOpenAICompatible({ name: "sluice", baseURL, apiKey: "unused", includeUsage })(MODEL),
  openai: (baseURL) => createOpenAI({ baseURL, apiKey: "unused" }).chat(MODEL),
  // In "strict" compatibility this provider asks for usage as OpenAI's API has it.
  openrouter: (baseURL, includeUsage) =>
    createOpenRouter({ baseURL, apiKey: "unused", compatibility: includeUsage ? "strict" : "compatible" })(MODEL),
};
const VERSION = JSON.parse(readFileSync(new URL("node_modules/ai/package.json", import.meta.url))).version;

async function play(provider, baseURL, scenario, prompt, report) {
  report.extra.version = VERSION;
  const model = PROVIDERS[provider](baseURL, scenario === "usage_on");
  if (scenario === "blocking") {
    const result = await generateText({ model, prompt });
    report.whole = result.text;
    report.finish_reason = result.finishReason;
    report.usage = usageOf(result.usage);
    return;
  }
  const leaving = new AbortController();
  const result = streamText({
    model,
    prompt,
    abortSignal: leaving.signal,
    maxRetries: 0, // its waits between tries are long
    onError: () => {}, // the error is in the stream too; this keeps it off the console
    ...(scenario.startsWith("tools")
      ? { tools: { get_weather: tool({ description: "Forecast.", inputSchema: jsonSchema(PARAMETERS) }) } }
      : {}),
  });
  for await (const part of result.fullStream) {
    readPart(part, report);
    if (scenario === "abort" && report.isEnough) leaving.abort();
  }
  if (scenario === "abort") report.leave();
}

function readPart(part, report) {
  if (part.type === "text-delta") report.add(part.text);
  if (part.type === "reasoning-delta") report.reasoning += part.text;
  if (part.type === "tool-call") {
    report.tool_calls.push({ id: part.toolCallId, name: part.toolName, arguments: JSON.stringify(part.input) });
  }
  if (part.type === "error") report.error = failure(part.error);
  if (part.type === "abort") report.extra.was_told_of_abort = true;
  if (part.type === "finish") {
    report.finish_reason = part.finishReason;
    report.usage = usageOf(part.totalUsage);
  }
}

function usageOf(usage) {
  if (usage.inputTokens === undefined) return null;
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.totalTokens,
    cached_tokens: usage.inputTokenDetails.cacheReadTokens ?? null,
    reasoning_tokens: usage.outputTokenDetails.reasoningTokens ?? null,
  };
}

const [provider, ...args] = process.argv.slice(2);
await playAll((...scenario) => play(provider, ...scenario), args);
