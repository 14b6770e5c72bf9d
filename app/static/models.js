/** The model: any id may be typed, those upstream lists are offered. */

import { byId, element } from "./element.js";
import { Failure } from "./failure.js";
import { about, ask } from "./gateway.js";
import { compact } from "./numbers.js";

const KEPT = "sluice.model";
const FIRST_OF_DEMO = "demo/story";

export class Models {
  #field;
  #session;
  #known = new Map();

  constructor(field, session) {
    this.#field = field;
    this.#session = session;
    field.value = sessionStorage.getItem(KEPT) ?? (about.demo ? FIRST_OF_DEMO : about.defaults.model);
    field.addEventListener("input", () => this.#chose());
    field.addEventListener("focus", () => field.select());
  }

  get chosen() {
    return this.#field.value.trim() || about.defaults.model;
  }

  /** Fetch the list; a failure is shown beside the field, which works without it. */
  async load() {
    try {
      const { data } = await ask(this.#session, "v1/models");
      this.#known = new Map(data.map((model) => [model.id, model]));
      byId("models").replaceChildren(...data.map(({ id, name }) => element("option", { value: id }, name ?? id)));
      this.#chose();
    } catch (error) {
      byId("model-note").textContent = `The model list did not come: ${Failure.ofException(error).message}`;
    }
  }

  #chose() {
    sessionStorage.setItem(KEPT, this.#field.value);
    const model = this.#known.get(this.chosen);
    byId("model-note").textContent = model ? described(model) : this.#known.size ? "Not in upstream's list; it is asked for all the same." : "";
  }
}

function described({ name, context_length: length, pricing }) {
  const price = pricing && Number(pricing.prompt) >= 0 ? priced(pricing) : null;
  return [name, length && `${compact(length)} context`, price].filter(Boolean).join(" · ");
}

function priced({ prompt, completion }) {
  if (!Number(prompt) && !Number(completion)) return "free";
  return `$${+(prompt * 1e6).toFixed(2)} in, $${+(completion * 1e6).toFixed(2)} out per million`;
}
