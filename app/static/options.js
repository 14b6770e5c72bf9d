/** The form beside the conversation: what goes into a request besides its messages. */

import { byId } from "./element.js";
import { about } from "./gateway.js";

const KEPT = "sluice.options";
const NUMBERS = ["temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "repetition_penalty", "max_tokens", "seed"];
const STAGE_FIELDS = { autotune: ["autotune", "strategy"], stm: ["stm_mode"],
  parseltongue: ["parseltongue", "parseltongue_technique", "parseltongue_intensity"] };

export class Options {
  #form;

  constructor(form) {
    this.#form = form;
    this.#restore();
    form.addEventListener("input", () => this.#keep());
    form.addEventListener("reset", () => queueMicrotask(() => { this.#setDefaults(); this.#keep(); }));
    for (const stage of Object.keys(STAGE_FIELDS)) byId(`stage-${stage}`).hidden = !about.stages.includes(stage);
  }

  /** What was typed as the system message. */
  get system() {
    return this.#field("system").value.trim();
  }

  /**
   * Give the fields of a request; those that are as the operator set them are left out.
   * Throws SyntaxError where the further fields are no JSON object.
   */
  toRequest() {
    const fields = { ...this.#pipeline(), ...this.#numbers() };
    const stop = this.#field("stop").value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (stop.length) fields.stop = stop;
    if (this.#field("delivery").value === "stream") Object.assign(fields, { stream: true, stream_options: { include_usage: true } });
    return { ...fields, ...this.#further() };
  }

  #pipeline() {
    const fields = {};
    for (const [stage, names] of Object.entries(STAGE_FIELDS)) {
      if (!about.stages.includes(stage)) continue;
      for (const name of names) {
        const value = this.#value(name);
        if (value !== about.defaults[name]) fields[name] = value;
      }
    }
    if (about.stages.includes("stm")) {
      const modules = [...this.#form.querySelectorAll('[name="stm_modules"]:checked')].map((box) => box.value);
      if (String(modules) !== String(about.defaults.stm_modules)) fields.stm_modules = modules;
    }
    return about.stages.includes("parseltongue") && this.#value("parseltongue") ? { ...fields, ...this.#triggers() } : fields;
  }

  #triggers() {
    const words = this.#field("parseltongue_triggers").value.split(/[,\n]/).map((word) => word.trim()).filter(Boolean);
    const seed = this.#field("parseltongue_seed").value;
    return { ...(words.length && { parseltongue_triggers: words }), ...(seed !== "" && { parseltongue_seed: Number(seed) }) };
  }

  #numbers() {
    const given = NUMBERS.filter((name) => this.#field(name).value !== "");
    return Object.fromEntries(given.map((name) => [name, Number(this.#field(name).value)]));
  }

  #further() {
    const text = this.#field("further").value.trim();
    if (!text) return {};
    const fields = JSON.parse(text);
    if (typeof fields !== "object" || fields === null || Array.isArray(fields)) throw new SyntaxError("not an object");
    return fields;
  }

  #value(name) {
    const field = this.#field(name);
    return field.type === "checkbox" ? field.checked : field.value;
  }

  #field(name) {
    return this.#form.elements[name];
  }

  #setDefaults() {
    for (const name of Object.values(STAGE_FIELDS).flat()) {
      const field = this.#field(name);
      if (field.type === "checkbox") field.checked = about.defaults[name];
      else field.value = about.defaults[name];
    }
    for (const box of this.#form.querySelectorAll('[name="stm_modules"]')) box.checked = about.defaults.stm_modules.includes(box.value);
    this.#field("max_tokens").placeholder = about.defaults.max_tokens || "upstream's";
  }

  #keep() {
    const values = [...this.#form.elements].filter((field) => field.name && !(field.type === "radio" && !field.checked))
      .map((field) => [field.name, field.type === "checkbox" ? [field.value, field.checked] : field.value]);
    sessionStorage.setItem(KEPT, JSON.stringify(values));
  }

  #restore() {
    this.#setDefaults();
    for (const [name, value] of JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")) {
      if (!Array.isArray(value)) this.#form.elements[name].value = value;
      else for (const box of this.#form.querySelectorAll(`[name="${name}"]`)) if (box.value === value[0]) box.checked = value[1];
    }
  }
}
