/** A request as a program: for curl, for Python, for Node. */

import { about, address } from "./gateway.js";

const INDENT = "    ";

/** What OpenAI's Python client takes by name; the rest goes into extra_body. */
const NAMED = new Set(["model", "messages", "stream", "stream_options", "temperature", "top_p", "frequency_penalty", "presence_penalty",
  "max_tokens", "max_completion_tokens", "seed", "stop", "n", "tools", "tool_choice", "response_format", "logprobs", "top_logprobs",
  "user", "logit_bias", "parallel_tool_calls"]);

const base = () => address("v1");

/** For a shell; the body is quoted so that nothing in it means anything to the shell. */
export function toCurl(request) {
  const key = about.needs_key ? ` \\\n  -H "Authorization: Bearer $SLUICE_KEY"` : "";
  const body = JSON.stringify(request, null, 2).replaceAll("'", `'\\''`);
  return `curl -N ${base()}/chat/completions \\\n  -H 'Content-Type: application/json'${key} \\\n  -d '${body}'\n`;
}

/** For OpenAI's Python client. */
export function toPython(request) {
  const named = Object.entries(request).filter(([name]) => NAMED.has(name));
  const extra = Object.fromEntries(Object.entries(request).filter(([name]) => !NAMED.has(name)));
  if (Object.keys(extra).length) named.push(["extra_body", extra]);
  const parameters = named.map(([name, value]) => `${INDENT}${name}=${pythonValue(value, 1)},\n`).join("");
  const key = about.needs_key ? `os.environ["SLUICE_KEY"]` : `"any"`;
  const print = request.stream
    ? `for chunk in answer:\n${INDENT}if chunk.choices:\n${INDENT}${INDENT}print(chunk.choices[0].delta.content or "", end="", flush=True)\n`
    : `print(answer.choices[0].message.content)\n`;
  return `${about.needs_key ? "import os\n\n" : ""}from openai import OpenAI\n\nclient = OpenAI(base_url=${JSON.stringify(base())}, api_key=${key})\n` +
    `answer = client.chat.completions.create(\n${parameters})\n${print}`;
}

/** For OpenAI's client for Node. */
export function toNode(request) {
  const key = about.needs_key ? "process.env.SLUICE_KEY" : `"any"`;
  const body = JSON.stringify(request, null, 2);
  const print = request.stream
    ? `for await (const chunk of answer) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");\n`
    : `console.log(answer.choices[0].message.content);\n`;
  return `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${JSON.stringify(base())}, apiKey: ${key} });\n` +
    `const answer = await client.chat.completions.create(${body});\n${print}`;
}

/** A JSON value in Python's spelling. */
function pythonValue(value, depth) {
  const inner = INDENT.repeat(depth + 1);
  const outer = INDENT.repeat(depth);
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) {
    return value.length ? `[\n${value.map((item) => `${inner}${pythonValue(item, depth + 1)},\n`).join("")}${outer}]` : "[]";
  }
  if (typeof value !== "object") return pythonLiteral(value);
  const items = Object.entries(value).map(([name, item]) => `${inner}${pythonLiteral(name)}: ${pythonValue(item, depth + 1)},\n`);
  return items.length ? `{\n${items.join("")}${outer}}` : "{}";
}

/** A number, or text; JSON's escapes are Python's, but for characters that JSON leaves as they are and an editor may not. */
function pythonLiteral(value) {
  return JSON.stringify(value).replace(/[\u007f\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
