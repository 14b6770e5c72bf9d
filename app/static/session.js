/** Who is signed in: a bearer key, kept for this tab only and never part of an address. */

import { byId } from "./element.js";

export class Session extends EventTarget {
  #name;
  #asking = null;

  /** *name* is where in sessionStorage the key is. */
  constructor(name) {
    super();
    this.#name = name;
  }

  get key() {
    return sessionStorage.getItem(this.#name);
  }

  headers() {
    if (!this.key) return {};
    const bytes = new TextEncoder().encode(this.key); // a header takes bytes only, and a key may be any text
    return { Authorization: `Bearer ${String.fromCharCode(...bytes)}` };
  }

  signOut() {
    sessionStorage.removeItem(this.#name);
    this.dispatchEvent(new Event("change"));
  }

  /** Ask for a key, with the failure that made it necessary; false when the person does not give one. */
  ask(failure = null) {
    this.#asking ??= this.#asked(failure).finally(() => { this.#asking = null; });
    return this.#asking;
  }

  async #asked(failure) {
    const dialog = byId("sign-in");
    const field = byId("sign-in-key");
    byId("sign-in-problem").textContent = failure && this.key ? "That key was not accepted." : "";
    field.value = "";
    dialog.returnValue = "";
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
    const key = field.value.trim();
    field.value = "";
    if (dialog.returnValue !== "ok" || !key) return false;
    sessionStorage.setItem(this.#name, key);
    this.dispatchEvent(new Event("change"));
    return true;
  }
}

/** Let a button in the top bar say who is signed in, and change it. */
export function signInButton(button, session) {
  const show = () => { button.textContent = session.key ? "Sign out" : "Sign in"; };
  session.addEventListener("change", show);
  button.addEventListener("click", () => (session.key ? session.signOut() : session.ask()));
  byId("sign-in-form").addEventListener("submit", (event) => {
    event.preventDefault(); // a dialog's form must not become a request: form-action forbids it, too
    byId("sign-in").close("ok");
  });
  byId("sign-in-cancel").addEventListener("click", () => byId("sign-in").close(""));
  show();
}
