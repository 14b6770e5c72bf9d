/**
 * Markdown that grows: blocks that are finished are rendered once, only the end is rendered anew.
 *
 * Model output is never trusted. Markup in it is shown as text, pictures of elsewhere become links, and what the
 * renderer makes passes DOMPurify with a short list of elements before it comes near the page.
 */

import DOMPurify from "./vendor/dompurify/purify.es.mjs";
import { Marked } from "./vendor/marked/marked.esm.js";
import { element } from "./element.js";

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => text.replace(/[&<>"']/g, (sign) => ESCAPES[sign]);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escape(text),
    heading({ tokens, depth }) {
      const level = Math.min(depth + 2, 6); // the page's own headings come first
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "hr", "strong", "em", "del", "code", "pre", "ul", "ol", "li", "blockquote", "a", "h3", "h4", "h5", "h6",
    "table", "thead", "tbody", "tr", "th", "td"],
  ALLOWED_ATTR: ["href", "title", "start", "align", "class"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

/** How many blocks before the last stay open: a list may still swallow the paragraph after it. */
const OPEN_BLOCKS = 2;

/** Of the time, the share that rendering the open end may take. */
const SHARE = 0.25;

export class Markdown {
  #container;
  #end = [];
  #done = 0;
  #hasDefinitions = false;
  #nextAt = 0;

  constructor(container) {
    this.#container = container;
  }

  /** Show *text*, which begins with what was shown before; false when it is too soon, and it has to be called again. */
  grow(text) {
    const began = performance.now();
    if (began < this.#nextAt) return false;
    this.#show(normal(text));
    this.#nextAt = began + (performance.now() - began) / SHARE;
    return true;
  }

  /** Show the whole *text*, which will not grow. */
  finish(text) {
    this.#show(normal(text));
    if (this.#hasDefinitions) this.replace(text); // a link's address may have come after its use
  }

  /** Show another text. */
  replace(text) {
    this.#container.replaceChildren(rendered(marked.lexer(normal(text))));
    this.#end = [];
    this.#done = text.length;
  }

  #show(text) {
    const tokens = marked.lexer(text.slice(this.#done));
    const open = openFrom(tokens);
    for (const node of this.#end) node.remove();
    const finished = tokens.slice(0, open);
    if (finished.length) {
      this.#container.append(rendered(finished));
      this.#done += finished.reduce((sum, token) => sum + token.raw.length, 0);
      this.#hasDefinitions ||= finished.some((token) => token.type === "def");
    }
    const fragment = rendered(tokens.slice(open));
    this.#hasDefinitions ||= tokens.some((token) => token.type === "def");
    this.#end = [...fragment.childNodes];
    this.#container.append(fragment);
  }
}

const normal = (text) => (text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text);

/** Find the first token that may still change. */
function openFrom(tokens) {
  let blocks = 0;
  for (let place = tokens.length - 1; place > 0; place -= 1) {
    if (tokens[place].type !== "space") blocks += 1;
    if (blocks === OPEN_BLOCKS) return place;
  }
  return 0;
}

/** Make harmless elements of tokens. */
function rendered(tokens) {
  const fragment = DOMPurify.sanitize(marked.parser(tokens), ALLOWED);
  for (const link of fragment.querySelectorAll("a[href]")) {
    Object.assign(link, { target: "_blank", rel: "noopener noreferrer nofollow" });
  }
  for (const code of fragment.querySelectorAll("pre > code")) frame(code);
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = element("div", { className: "scroller", tabIndex: 0 });
    table.replaceWith(scroller);
    scroller.append(table);
  }
  return fragment;
}

/** Put a head with the language and a button above a block of code. */
function frame(code) {
  const block = code.parentElement;
  const language = /language-(\S+)/.exec(code.className)?.[1] ?? "text";
  const copy = element("button", { type: "button", className: "quiet", "data-copy": true }, "Copy");
  const framed = element("div", { className: "code" }, element("div", { className: "code-head" }, element("span", {}, language), copy));
  block.tabIndex = 0;
  block.replaceWith(framed);
  framed.append(block);
}
