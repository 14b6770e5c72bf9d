/** Makes elements. Text is always text: nothing here reads markup. */

/** Make an element; a property that starts with "on" listens, a null one is left out. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list" && key !== "role") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Give the one element with this id. */
export const byId = (id) => document.getElementById(id);

/** Make a table of names and values, as a description list. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", { className: "facts" }, rows.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}
