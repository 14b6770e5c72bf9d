/** The dialog that shows a request as a program. */

import { copyText } from "./clipboard.js";
import { toCurl, toNode, toPython } from "./snippet.js";

const LANGUAGES = { curl: toCurl, python: toPython, node: toNode };

export class SnippetDialog {
  #dialog;
  #request = null;

  constructor(dialog) {
    this.#dialog = dialog;
    for (const choice of dialog.querySelectorAll('[name="language"]')) choice.addEventListener("change", () => this.#show());
    dialog.querySelector("[data-copy-snippet]").addEventListener("click", ({ currentTarget }) => copyText(this.#code.textContent, currentTarget));
    dialog.querySelector("[data-close-snippet]").addEventListener("click", () => dialog.close());
  }

  open(request) {
    this.#request = request;
    this.#show();
    this.#dialog.showModal();
  }

  get #code() {
    return this.#dialog.querySelector("code");
  }

  #show() {
    const language = this.#dialog.querySelector('[name="language"]:checked').value;
    this.#code.textContent = LANGUAGES[language](this.#request);
  }
}
