/** Conversations: what was said, kept for this tab only. */

import { Completion } from "./completion.js";

const KEPT = "sluice.conversations";
const MOST = 30;

export class Conversation {
  constructor({ id = crypto.randomUUID?.() ?? String(Math.random()), turns = [] } = {}) {
    this.id = id;
    /** {role: "user", text} and {role: "assistant", completion}, in turn. */
    this.turns = turns;
  }

  get title() {
    return this.turns[0]?.text.trim().split("\n")[0].slice(0, 80) || "New conversation";
  }

  /** Give the messages of a request that comes after the first *length* turns. */
  messages(system, length = this.turns.length) {
    const said = this.turns.slice(0, length).map((turn) =>
      turn.role === "user" ? { role: "user", content: turn.text } : { role: "assistant", content: textOf(turn.completion) });
    const spoken = said.filter((message) => message.content);
    return system ? [{ role: "system", content: system }, ...spoken] : spoken;
  }

  toJSON() {
    return { id: this.id, turns: this.turns };
  }

  static from({ id, turns }) {
    const woken = turns.map((turn) => (turn.completion ? { ...turn, completion: Completion.from(turn.completion) } : turn));
    return new Conversation({ id, turns: woken });
  }
}

/** What an answer says in the end: corrected where it was corrected. */
export const textOf = (completion, index = 0) => completion.choices[index]?.corrected ?? completion.choices[index]?.text ?? "";

export class History {
  /** Newest first; never empty. */
  conversations;

  constructor() {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    this.conversations = kept.map(Conversation.from);
    if (!this.conversations.length) this.conversations = [new Conversation()];
  }

  /** Begin another one, unless the newest is still empty. */
  begin() {
    if (this.conversations[0].turns.length) this.conversations.unshift(new Conversation());
    return this.conversations[0];
  }

  remove(conversation) {
    this.conversations = this.conversations.filter((one) => one !== conversation);
    if (!this.conversations.length) this.conversations = [new Conversation()];
    this.keep();
  }

  /** Keep them all; where the browser's room ends, the oldest go. */
  keep() {
    for (let length = Math.min(this.conversations.length, MOST); length >= 0; length -= 1) {
      try {
        const full = this.conversations.slice(0, length).filter((one) => one.turns.length);
        sessionStorage.setItem(KEPT, JSON.stringify(full));
        return;
      } catch {
        // over the quota: with one less
      }
    }
  }
}
