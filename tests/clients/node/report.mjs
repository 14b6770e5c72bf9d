// What the runners in JavaScript share; the same command line and the same reports as report.py describes.

export const MODEL = "demo/script";
const ABORT_AFTER = 3;

export const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
};

export class Report {
  text = "";
  whole = null;
  chunks = 0;
  reasoning = "";
  role = null;
  finish_reason = null;
  usage = null;
  tool_calls = [];
  error = null;
  left_at = null;
  extra = {};

  add(text) {
    if (text) {
      this.text += text;
      this.chunks += 1;
    }
  }

  get isEnough() {
    return this.chunks >= ABORT_AFTER;
  }

  // The client has left. The clock is the one of Python's time.monotonic().
  leave() {
    this.left_at = Number(process.hrtime.bigint()) / 1e9;
  }
}

export function flatUsage(usage) {
  return {
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
    cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? null,
    reasoning_tokens: usage.completion_tokens_details?.reasoning_tokens ?? null,
    cost: usage.cost ?? null,
  };
}

export function failure(error) {
  const classes = [];
  for (let type = Object.getPrototypeOf(error); type !== null; type = Object.getPrototypeOf(type)) {
    classes.push(type.constructor.name);
  }
  return {
    class: classes[0],
    classes,
    message: error.message ?? String(error),
    status: error.status ?? error.statusCode ?? null,
    code: error.code ?? null,
  };
}

// Whatever `play` throws ends the process, as no client should.
export async function playAll(play, args) {
  if (args.length === 0 || args.length % 3 !== 0) {
    throw new Error("usage: [options] BASE_URL SCENARIO PROMPT ...");
  }
  for (let start = 0; start < args.length; start += 3) {
    const [baseURL, scenario, prompt] = args.slice(start, start + 3);
    const report = new Report();
    await play(baseURL, scenario, prompt, report);
    console.log(JSON.stringify({ scenario, ...report }));
  }
}
