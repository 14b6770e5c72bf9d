/** One choice of an answer on the page: reasoning, text, tool calls, pictures, and what STM corrected. */

import { changesOf, differenceList } from "./difference.js";
import { element } from "./element.js";
import { Markdown } from "./markdown.js";

export class ChoiceView {
  #reasoning = element("p", { className: "plain" });
  #thinking = element("details", { className: "aside reasoning", hidden: true, open: true },
    element("summary", {}, "Reasoning"), this.#reasoning);
  #text = element("div", { className: "markdown" });
  #markdown = new Markdown(this.#text);
  #tools = element("div", { className: "tools" });
  #images = element("div", { className: "images" });
  #sources = element("ul", { className: "sources" });
  #correction = element("div");
  #shown = { reasoning: 0, tools: "", images: 0, sources: 0 };

  constructor(label) {
    this.root = element("div", { className: "choice" }, label && element("h3", { className: "choice-label" }, label),
      this.#thinking, this.#text, this.#tools, this.#images, this.#sources, this.#correction);
  }

  /** Show what is new; false when some of it has to wait for another frame. */
  update(choice, isOver) {
    this.#updateReasoning(choice, isOver);
    this.#updateTools(choice.tools);
    for (const url of choice.images.slice(this.#shown.images)) this.#images.append(picture(url));
    this.#shown.images = choice.images.length;
    for (const source of choice.sources.slice(this.#shown.sources)) this.#sources.append(element("li", {}, outside(source.url, source.title)));
    this.#shown.sources = choice.sources.length;
    const text = choice.text + choice.refusal;
    if (!isOver) return this.#markdown.grow(text);
    this.#markdown.finish(text);
    this.#updateCorrection(choice);
    return true;
  }

  #updateReasoning({ reasoning, text }, isOver) {
    if (reasoning.length === this.#shown.reasoning) return;
    this.#thinking.hidden = false;
    this.#reasoning.append(reasoning.slice(this.#shown.reasoning));
    this.#shown.reasoning = reasoning.length;
    if (isOver) this.#thinking.open = !text;
  }

  #updateTools(tools) {
    const state = JSON.stringify(tools);
    if (state === this.#shown.tools) return;
    this.#shown.tools = state;
    this.#tools.replaceChildren(...tools.filter(Boolean).map((tool) =>
      element("section", { className: "aside tool" },
        element("h3", {}, "Tool call ", element("code", {}, tool.name)),
        element("pre", { tabIndex: 0 }, indented(tool.arguments)))));
  }

  #updateCorrection({ text, corrected }) {
    if (corrected === null) return;
    this.#markdown.replace(corrected);
    const changes = changesOf(text, corrected);
    const summary = changes ? `STM changed ${changes.length} ${changes.length === 1 ? "passage" : "passages"}` : "STM changed this answer";
    const toggle = element("button", { type: "button", className: "quiet", ariaPressed: "false" }, "Show as streamed");
    toggle.addEventListener("click", () => {
      const isRaw = toggle.ariaPressed === "false";
      toggle.ariaPressed = String(isRaw);
      this.#markdown.replace(isRaw ? text : corrected);
    });
    this.#correction.replaceChildren(element("details", { className: "aside correction", open: true },
      element("summary", {}, summary), changes && differenceList(changes), toggle));
  }
}

/** A picture that came with the answer itself; one of elsewhere is a link, so that nothing is fetched unasked. */
function picture(url) {
  if (/^data:image\/(?:png|jpeg|gif|webp);/.test(url)) return element("img", { src: url, alt: "Picture in the answer" });
  return outside(url, url || "A picture that cannot be shown");
}

/** A link to elsewhere; text where the address is none that a browser should follow. */
function outside(url, text) {
  if (!/^https?:/i.test(url)) return element("span", {}, text ?? url);
  return element("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, text || url);
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
