// Plays scenarios with openai-node; `--helper` uses its `.stream()` helper.

import OpenAI, { OpenAIError } from "openai";
import { VERSION } from "openai/version";
import { MODEL, PARAMETERS, failure, flatUsage, playAll } from "./report.mjs";

const TOOL = {
  type: "function",
  function: { name: "get_weather", description: "Forecast.", parameters: PARAMETERS, strict: true },
};
const clients = new Map();

// One client for an address, so that scenarios share its connections as a user's calls do.
function client(baseURL) {
  if (!clients.has(baseURL)) {
    clients.set(baseURL, new OpenAI({ baseURL, apiKey: "unused" }));
  }
  return clients.get(baseURL);
}

function options(scenario, prompt) {
  return {
    model: MODEL,
    messages: [{ role: "user", content: prompt }],
    ...(scenario === "usage_on" ? { stream_options: { include_usage: true } } : {}),
    ...(scenario.startsWith("tools") ? { tools: [TOOL] } : {}),
  };
}

async function play(baseURL, scenario, prompt, report) {
  report.extra.version = VERSION;
  const completions = client(baseURL).chat.completions;
  try {
    if (scenario === "blocking") {
      readCompletion(await completions.create(options(scenario, prompt)), report);
    } else {
      await readStream(await completions.create({ ...options(scenario, prompt), stream: true }), scenario, report);
    }
  } catch (error) {
    if (!(error instanceof OpenAIError)) throw error;
    report.error = failure(error);
  }
}

async function readStream(stream, scenario, report) {
  for await (const chunk of stream) {
    if (chunk.usage) report.usage = flatUsage(chunk.usage);
    for (const choice of chunk.choices) {
      report.role = choice.delta.role ?? report.role;
      report.add(choice.delta.content);
      report.reasoning += choice.delta.reasoning ?? "";
      for (const fragment of choice.delta.tool_calls ?? []) assemble(report.tool_calls, fragment);
      report.finish_reason = choice.finish_reason ?? report.finish_reason;
    }
    if (scenario === "abort" && report.isEnough) break;
  }
  if (scenario === "abort") report.leave();
}

// Whatever comes twice is there twice.
function assemble(calls, fragment) {
  calls[fragment.index] ??= { id: "", name: "", arguments: "" };
  const call = calls[fragment.index];
  call.id += fragment.id ?? "";
  call.name += fragment.function?.name ?? "";
  call.arguments += fragment.function?.arguments ?? "";
}

function readCompletion(completion, report) {
  const { message, finish_reason } = completion.choices[0];
  report.role = message.role;
  report.whole = message.content;
  report.finish_reason = finish_reason;
  report.tool_calls = (message.tool_calls ?? []).map((call) => ({
    id: call.id,
    name: call.function.name,
    arguments: call.function.arguments,
  }));
  if (completion.usage) report.usage = flatUsage(completion.usage);
}

async function playHelper(baseURL, scenario, prompt, report) {
  report.extra.version = VERSION;
  const stream = client(baseURL).chat.completions.stream(options(scenario, prompt));
  stream.on("content", (delta) => {
    report.add(delta);
    if (scenario === "abort" && report.isEnough) stream.abort();
  });
  stream.on("chunk", (chunk) => {
    for (const choice of chunk.choices) report.reasoning += choice.delta.reasoning ?? "";
  });
  try {
    readCompletion(await stream.finalChatCompletion(), report);
  } catch (error) {
    if (!(error instanceof OpenAIError)) throw error;
    report.error = failure(error);
  }
  if (scenario === "abort") report.leave();
}

const args = process.argv.slice(2);
if (args[0] === "--helper") {
  await playAll(playHelper, args.slice(1));
} else {
  await playAll(play, args);
}
