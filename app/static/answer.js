/** An answer on the page: it grows with its completion, and offers what can be done with it. */

import { ChoiceView } from "./choice.js";
import { textOf } from "./conversation.js";
import { element } from "./element.js";
import { about } from "./gateway.js";
import { count, duration } from "./numbers.js";
import { particulars } from "./particulars.js";

export class AnswerView {
  #completion;
  #actions;
  #choices = [];
  #frame = null;
  #clock = null;
  #model = element("span", { className: "who" });
  #live = element("span", { className: "badge", hidden: true, title: "STM corrects the text as it streams" }, "STM live");
  #meter = element("span", { className: "meter" });
  #body = element("div", { className: "answer-body" });
  #foot = element("footer", { className: "actions", hidden: true });
  #more = element("div");

  /** *actions* are functions: regenerate, rate, snippet, say (for a screen reader). */
  constructor(completion, actions) {
    this.#completion = completion;
    this.#actions = actions;
    this.root = element("article", { className: "turn answer", ariaLabel: "Answer" },
      element("header", {}, this.#model, this.#live, this.#meter), this.#body, this.#foot, this.#more);
    this.#live.hidden = (completion.request.stm_mode ?? about.defaults.stm_mode) !== "live" || !about.stages.includes("stm");
    completion.changed = () => this.#schedule();
    if (completion.isOver) this.#finish();
    else this.#begin();
  }

  /** Take the answer off the page; its completion no longer draws. */
  remove() {
    this.#completion.changed = () => {};
    this.#rest();
    this.root.remove();
  }

  #begin() {
    this.root.setAttribute("aria-busy", "true");
    this.#clock = setInterval(() => this.#schedule(), 250); // the waiting time is shown while nothing comes
    this.#schedule();
  }

  #schedule() {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      if (this.#completion.isOver) this.#finish();
      else if (!this.#draw()) this.#schedule();
    });
  }

  /** Draw what is new; false when some of it has to wait. */
  #draw() {
    const completion = this.#completion;
    this.#model.textContent = completion.model || completion.request.model;
    this.#meter.replaceChildren(...meter(completion));
    const waits = completion.choices.map((choice, index) => this.#choice(index).update(choice, completion.isOver));
    this.#actions.grown();
    return waits.every(Boolean);
  }

  #choice(index) {
    while (this.#choices.length <= index) {
      const place = this.#choices.length;
      const view = new ChoiceView(place ? `Choice ${place + 1}` : null);
      this.#choices.push(view);
      this.#body.append(view.root);
    }
    return this.#choices[index];
  }

  #rest() {
    cancelAnimationFrame(this.#frame);
    clearInterval(this.#clock);
    this.#frame = null;
  }

  #finish() {
    this.#rest();
    this.#draw();
    this.root.removeAttribute("aria-busy");
    const { failure, metadata } = this.#completion;
    if (failure) this.#body.append(callout(failure, this.#completion));
    this.#foot.replaceChildren(...this.#buttons());
    this.#foot.hidden = false;
    if (metadata) {
      const account = element("details", { className: "aside happened" }, element("summary", {}, "What happened"));
      account.addEventListener("toggle", () => account.childElementCount > 1 || account.append(particulars(this.#completion)));
      this.#more.replaceChildren(account);
    }
    this.#actions.grown();
  }

  #buttons() {
    const { regenerate, rate, snippet, copy } = this.#actions;
    const again = this.#completion.failure ? "Try again" : "Regenerate";
    const buttons = [
      button(again, () => regenerate()),
      button("Copy text", (event) => copy(textOf(this.#completion), event.currentTarget)),
      button("Copy as code", () => snippet()),
    ];
    const canRate = about.stages.includes("autotune") && this.#completion.state === "done" && this.#completion.id;
    return canRate ? [...buttons, this.#thumb(1, rate), this.#thumb(-1, rate)] : buttons;
  }

  #thumb(rating, rate) {
    const name = rating > 0 ? "Good answer" : "Bad answer";
    const made = button(rating > 0 ? "Good" : "Bad", async () => {
      if (await rate(rating)) {
        this.#completion.rating = rating;
        for (const one of this.#foot.querySelectorAll(".thumb")) one.ariaPressed = String(one === made);
      }
    });
    made.classList.add("thumb", rating > 0 ? "up" : "down");
    Object.assign(made, { title: name, ariaLabel: name, ariaPressed: String(this.#completion.rating === rating) });
    return made;
  }
}

const button = (text, onclick) => element("button", { type: "button", className: "quiet", onclick }, text);

/** Time to first token, speed, count, total: what is known of them. */
function meter(completion) {
  const { firstTokenMs, speed, tokens, state, elapsedMs, isOver } = completion;
  if (state === "waiting") return [element("span", { className: "pulse" }), `waiting ${duration(Math.floor(elapsedMs / 100) * 100)}`];
  const parts = [
    firstTokenMs !== null && `first token ${duration(firstTokenMs)}`,
    speed !== null && `${speed.toFixed(1)} tokens/s`,
    tokens > 0 && `${completion.usage ? "" : "~"}${count(tokens)} tokens`,
    isOver && duration(elapsedMs),
    state === "stopped" && "stopped",
  ];
  return [parts.filter(Boolean).join(" · ")];
}

/** Say what went wrong, and whether anything had come before. */
function callout(failure, completion) {
  const hasText = completion.choices.some((choice) => choice && (choice.text || choice.reasoning || choice.tools.length));
  if (failure.isStop) return element("p", { className: "callout stopped" }, "You stopped this answer; the gateway closed the call upstream.");
  const code = [failure.status, failure.code].filter((part) => part !== null && part !== undefined && part !== "");
  return element("div", { className: "callout failed", role: "alert" },
    element("strong", {}, hasText ? "The answer broke off" : "No answer came"),
    element("p", {}, sentence(failure.message)),
    failure.advice && element("p", {}, failure.advice),
    code.length > 0 && element("p", { className: "muted" }, "Code ", element("code", {}, [...new Set(code.map(String))].join(" · "))));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?:]$/.test(text) ? "" : ".");
