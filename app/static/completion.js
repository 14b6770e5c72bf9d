/** One chat completion: asked for, gathered as it comes, timed. */

import { Failure } from "./failure.js";
import { call } from "./gateway.js";
import { readEvents } from "./sse.js";

/** One choice of an answer, as far as it has come. */
function newChoice() {
  return { text: "", reasoning: "", refusal: "", tools: [], images: [], sources: [], corrected: null, finish: null };
}

export class Completion {
  /** waiting, streaming, done, failed or stopped. */
  state = "waiting";
  id = null;
  model = null;
  choices = [];
  usage = null;
  /** What the gateway tells about the request: x_g0dm0d3. */
  metadata = null;
  failure = null;
  /** Milliseconds, as this page sees them. */
  firstTokenMs = null;
  totalMs = null;
  chunks = 0;
  /** 1 or -1 once the person has rated it. */
  rating = null;
  storedSpeed = null;
  #began = performance.now();
  #first = null;
  #last = null;
  #abort = new AbortController();

  /** *request* is the body; *changed* is called, often, whenever there is something new. */
  constructor(request, changed = () => {}) {
    this.request = request;
    this.changed = changed;
  }

  get isOver() {
    return !["waiting", "streaming"].includes(this.state);
  }

  /** Milliseconds since it was asked for, or that it took. */
  get elapsedMs() {
    return this.totalMs ?? performance.now() - this.#began;
  }

  /** Tokens so far: as counted by upstream, else one for each chunk. */
  get tokens() {
    return this.usage?.completion_tokens ?? this.chunks;
  }

  /** Tokens per second between the first and the last; null where that says nothing. */
  get speed() {
    const seconds = (this.#last - this.#first) / 1000;
    return this.storedSpeed ?? (this.chunks > 2 && seconds > 0.05 ? (this.tokens - 1) / seconds : null);
  }

  /** Hang up; the gateway then closes upstream. */
  stop() {
    this.#abort.abort();
  }

  /** Ask, and take the answer to its end; never throws. */
  async run(session) {
    this.#began = performance.now();
    let isAnswered = false;
    try {
      const accept = this.request.stream ? "text/event-stream" : "application/json";
      const response = await call(session, "v1/chat/completions", { body: this.request, signal: this.#abort.signal, accept });
      isAnswered = true;
      if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) await this.#stream(response);
      else this.#whole(await response.json());
      if (this.failure) this.state = "failed";
      else if (!this.isOver) this.state = "done";
    } catch (error) {
      const isOurs = error instanceof Failure || error.name === "AbortError" || !isAnswered;
      this.failure = isOurs ? Failure.ofException(error) : Failure.ofCut();
      this.state = this.failure.isStop ? "stopped" : "failed";
    }
    this.totalMs = performance.now() - this.#began;
    this.changed();
  }

  async #stream(response) {
    let isDone = false;
    for await (const data of readEvents(response)) { // to the end of the body: who hangs up at [DONE] counts as gone
      isDone ||= data === "[DONE]";
      if (isDone) continue;
      this.#take(JSON.parse(data));
      this.changed();
    }
    if (!isDone) throw Failure.ofCut();
  }

  #take(chunk) {
    if (chunk.error) this.failure = Failure.ofObject(chunk.error);
    this.#head(chunk);
    for (const choice of chunk.choices ?? []) this.#gather(choice);
    const told = chunk.x_g0dm0d3;
    if (told?.stm_applied) this.choice(chunk.choices?.[0]?.index).corrected = told.final_content;
    else if (told) this.metadata = { ...this.metadata, ...told };
  }

  #head(chunk) {
    this.id ??= chunk.id ?? null;
    this.model ??= chunk.model ?? null;
    this.usage = chunk.usage ?? this.usage;
  }

  #gather({ index, delta = {}, finish_reason: finish }) {
    const choice = this.choice(index);
    const said = delta.content || delta.reasoning || delta.reasoning_content || delta.refusal || delta.tool_calls || delta.images;
    if (said) this.#tick();
    if (delta.content) choice.text += delta.content;
    if (delta.reasoning || delta.reasoning_content) choice.reasoning += delta.reasoning || delta.reasoning_content;
    if (delta.refusal) choice.refusal += delta.refusal;
    for (const fragment of delta.tool_calls ?? []) addTool(choice.tools, fragment);
    for (const image of delta.images ?? []) choice.images.push(image.image_url?.url ?? "");
    for (const { url_citation: source } of delta.annotations ?? []) if (source?.url) choice.sources.push(source);
    if (finish) choice.finish = finish;
  }

  #tick() {
    this.#last = performance.now();
    if (this.#first === null) {
      this.#first = this.#last;
      this.firstTokenMs = this.#first - this.#began;
      this.state = "streaming";
    }
    this.chunks += 1;
  }

  #whole(answer) {
    this.#head(answer);
    this.metadata = answer.x_g0dm0d3 ?? null;
    for (const { index, message, finish_reason } of answer.choices) {
      this.#gather({ index, delta: message, finish_reason });
    }
    this.firstTokenMs = null; // it came in one piece
    this.state = "done";
  }

  choice(index = 0) {
    return (this.choices[index] ??= newChoice());
  }

  /** What is kept of it; messages are the conversation's. */
  toJSON() {
    const { state, id, model, choices, usage, metadata, failure, firstTokenMs, totalMs, chunks } = this;
    const { messages, ...request } = this.request;
    return { state, id, model, choices, usage, metadata, failure, firstTokenMs, totalMs, chunks, request, storedSpeed: this.speed, rating: this.rating };
  }

  /** Bring back what was kept. */
  static from(kept) {
    const found = Object.assign(new Completion(kept.request), kept);
    found.failure = kept.failure && new Failure(kept.failure);
    if (!found.isOver) Object.assign(found, { state: "stopped", failure: Failure.ofStop() }); // the page was left meanwhile
    return found;
  }
}

/** Add a fragment of a tool call to the calls it belongs to. */
function addTool(tools, { index = tools.length, id, function: called = {} }) {
  const tool = (tools[index] ??= { id: null, name: "", arguments: "" });
  tool.id ??= id ?? null;
  tool.name += called.name ?? "";
  tool.arguments += called.arguments ?? "";
}
