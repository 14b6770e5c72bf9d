/** A bar beside a number. */

import { element } from "./element.js";

/** Make a bar as long as *share*, from 0 to 1; whoever does not see it reads the number. */
export function bar(share) {
  const filled = element("span");
  filled.style.width = `${Math.round(share * 1000) / 10}%`;
  return element("span", { className: "bar", "aria-hidden": "true" }, filled);
}
