/** What the gateway has recorded, asked for over its API. */

import { ask, call } from "./gateway.js";
import { Metrics } from "./metrics.js";

const MOST = 1000;
const PAGES = 5;

export class RecordOf {
  #session;

  constructor(session) {
    this.#session = session;
  }

  /** Statistics by what *by* says: "model", or "period" with a *period*; whole hours, so from a little earlier on. */
  stats(since, by, period = null) {
    return this.#ask("stats", { since, by, period });
  }

  /** One page of events, newest first. */
  events(query) {
    return this.#ask("events", query);
  }

  /** All events since then, at most PAGES pages of them; {events, isWhole}. */
  async all(since) {
    const events = [];
    let cursor = null;
    for (let page = 0; page < PAGES; page += 1) {
      const found = await this.events({ since, limit: MOST, cursor });
      events.push(...found.data);
      cursor = found.next_cursor;
      if (!cursor) return { events, isWhole: true };
    }
    return { events, isWhole: false };
  }

  async metrics() {
    const response = await call(this.#session, "metrics", { accept: "text/plain" });
    return new Metrics(await response.text());
  }

  #ask(what, query) {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    return ask(this.#session, `v1/metadata/${what}?${new URLSearchParams(given)}`);
  }
}
