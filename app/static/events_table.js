/** Recent requests: newest first, filtered, each with its particulars. */

import { byId, element, facts } from "./element.js";
import { groupOf, REASONS, wordsOf } from "./ending.js";
import { compact, count, dollars, duration } from "./numbers.js";
import { particulars } from "./particulars.js";

const PAGE = 25;
const PAUSE = 300; // milliseconds after the last key before a filter is applied
const BADGE = { answered: "good", left: "dull", rejected: "warn", upstream: "bad", gateway: "bad" };

export class EventsTable {
  #record;
  #failed;
  #rows = new Map();
  #cursor = null;
  #isDeep = false;
  #asked = 0;

  /** *record* is asked; *failed* takes what went wrong, or null when nothing did. */
  constructor(record, failed) {
    this.#record = record;
    this.#failed = failed;
    const form = byId("filters");
    form.elements.end_reason.append(...REASONS.map((reason) => element("option", { value: reason }, wordsOf(reason))));
    let timer = null;
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.load(), PAUSE);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("more").addEventListener("click", () => this.#more());
    byId("event-close").addEventListener("click", () => byId("event").close());
  }

  /** Show the first page for the filters as they are. */
  async load() {
    if (!byId("filters").checkValidity()) return; // half a status is still being typed
    this.#isDeep = false;
    const asked = (this.#asked += 1);
    const found = await this.#page(null);
    if (!found || asked !== this.#asked) return;
    this.#rows.clear();
    byId("events-rows").replaceChildren();
    this.#add(found.data, "append");
    this.#showEnd(found.next_cursor);
  }

  /** Put what is new on top; rows that are there stay, and with them a person's place. */
  async refresh() {
    if (this.#isDeep) return;
    const asked = this.#asked;
    const found = await this.#page(null);
    if (!found || asked !== this.#asked) return;
    this.#add(found.data, "prepend");
    if (this.#rows.size > 2 * PAGE) await this.load();
    else this.#showEnd(this.#cursor ?? found.next_cursor);
  }

  async #more() {
    this.#isDeep = true;
    const found = await this.#page(this.#cursor);
    if (!found) return;
    this.#add(found.data, "append");
    this.#showEnd(found.next_cursor);
  }

  async #page(cursor) {
    try {
      const filters = Object.fromEntries([...new FormData(byId("filters"))].map(([name, value]) => [name, value.trim()]));
      const found = await this.#record.events({ ...filters, limit: PAGE, cursor });
      this.#failed(null);
      return found;
    } catch (error) {
      this.#failed(error);
      return null;
    }
  }

  #add(events, where) {
    const fresh = events.filter((event) => !this.#rows.has(event.record_id)).map((event) => {
      const row = rowOf(event);
      this.#rows.set(event.record_id, row);
      return row;
    });
    byId("events-rows")[where](...fresh);
  }

  #showEnd(cursor) {
    this.#cursor = cursor;
    byId("more").hidden = !cursor;
    const isFiltered = [...new FormData(byId("filters")).values()].some(Boolean);
    byId("events-empty").hidden = this.#rows.size > 0;
    byId("events-empty").textContent = isFiltered ? "No request fits these filters." : "No request is recorded yet. Send one from the playground.";
    byId("events-table").hidden = this.#rows.size === 0;
  }
}

function rowOf(event) {
  const group = groupOf(event.end_reason);
  const open = element("button", { type: "button", className: "quiet when", onclick: () => openEvent(event) }, timeOf(event.created_at));
  const cell = (text, className) => element("td", { className }, text);
  return element("tr", {},
    element("th", { scope: "row" }, open),
    cell(modelOf(event), "model"),
    element("td", {}, element("span", { className: `badge ${BADGE[group.id]}` }, wordsOf(event.end_reason))),
    cell(String(event.status), "number"),
    cell(duration(event.first_chunk_ms), "number"),
    cell(duration(event.total_ms), "number"),
    cell(event.usage?.total_tokens === null || !event.usage ? "–" : `${event.usage.is_estimate ? "~" : ""}${compact(event.usage.total_tokens)}`, "number"),
    cell(dollars(event.usage?.cost), "number"),
    cell(event.key_label ?? "–"));
}

/** Show everything that is recorded about one request. */
function openEvent(event) {
  byId("event-title").textContent = `${modelOf(event)}, ${wordsOf(event.end_reason)}`;
  const { first_chunk_ms, total_ms, pipeline, params_used, attempts, record_id, generation_id } = event;
  const account = particulars({ id: event.completion_id, model: modelOf(event), usage: event.usage, totalMs: total_ms,
    metadata: { record_id, generation_id, model: modelOf(event), params_used, pipeline, attempts, timing: { first_chunk_ms, total_ms } } });
  byId("event-body").replaceChildren(
    facts([
      ["when", new Date(event.created_at * 1000).toLocaleString()], ["asked for", event.requested_model], ["provider", event.provider],
      ["delivery", event.stream ? "stream" : "all at once"], ["status", String(event.status)],
      ["error", event.error && [event.error.code, event.error.type].filter(Boolean).join(" · ")],
      ["key", event.key_label], ["request", event.request_id],
      ["sent", `${count(event.characters)} characters in ${event.chunks === 1 ? "one chunk" : `${count(event.chunks)} chunks`}`]]),
    account);
  byId("event").showModal();
}

const modelOf = (event) => event.served_model ?? event.requested_model ?? "none";

function timeOf(seconds) {
  const when = new Date(seconds * 1000);
  const isToday = when.toDateString() === new Date().toDateString();
  return when.toLocaleString([], isToday ? { timeStyle: "medium", hourCycle: "h23" } : { dateStyle: "short", timeStyle: "short", hourCycle: "h23" });
}
