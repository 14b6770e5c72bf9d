/** The panels at the sides: on a narrow screen they lie over the page, and a button opens each. */

import { byId } from "./element.js";

const narrow = matchMedia("(max-width: 1080px)");

/** Wire every button that controls a drawer. */
export function drawers() {
  const buttons = [...document.querySelectorAll("[data-drawer]")];
  for (const button of buttons) {
    button.addEventListener("click", () => toggle(button, button.ariaExpanded !== "true", buttons));
    const drawer = byId(button.dataset.drawer);
    drawer.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && narrow.matches) toggle(button, false, buttons);
    });
    drawer.querySelector("[data-close]").addEventListener("click", () => toggle(button, false, buttons));
  }
}

function toggle(button, isOpen, buttons) {
  for (const other of buttons) if (other !== button) close(other);
  button.ariaExpanded = String(isOpen);
  const drawer = byId(button.dataset.drawer);
  drawer.classList.toggle("is-open", isOpen);
  if (isOpen) drawer.querySelector("button, input, select, textarea")?.focus();
  else button.focus();
}

function close(button) {
  button.ariaExpanded = "false";
  byId(button.dataset.drawer).classList.remove("is-open");
}
