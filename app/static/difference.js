/** What STM changed in an answer, as short passages with a little text around. */

import { wordsWithSpaceDiff } from "./vendor/diff/diff/word.js";
import { element } from "./element.js";

const AROUND = 40;
const TOO_LONG = 500; // milliseconds

/** Give the changes from *before* to *after*, in order; null when comparing takes too long. */
export function changesOf(before, after) {
  const parts = wordsWithSpaceDiff.diff(before, after, { timeout: TOO_LONG });
  if (!parts) return null;
  const found = [];
  let open = null;
  for (const { value, added, removed } of parts) {
    if (!added && !removed) {
      if (open && value.trim() === "" && value.length < 3) {
        open.removed += value; // one passage, not two, where only a space lies between
        open.added += value;
        continue;
      }
      if (open) open.after = value;
      open = null;
      found.last = value;
      continue;
    }
    if (!open) found.push((open = { before: found.last ?? "", removed: "", added: "", after: "" }));
    if (removed) open.removed += value;
    else open.added += value;
  }
  return found;
}

/** Show the changes as a list; each says in words, too, what is gone and what has come. */
export function differenceList(changes) {
  return element("ol", { className: "changes" }, changes.map(({ before, removed, added, after }) =>
    element("li", {},
      lastOf(before),
      removed && element("del", {}, removed),
      added && element("ins", {}, added),
      firstOf(after))));
}

/** The end of a text, as far as it is on the same line; whole words. */
function lastOf(text) {
  const line = text.slice(text.lastIndexOf("\n") + 1);
  return line.length > AROUND ? `… ${line.slice(-AROUND).replace(/^\S*\s/, "")}` : line;
}

/** Likewise its beginning. */
function firstOf(text) {
  const line = text.split("\n", 1)[0];
  return line.length > AROUND ? `${line.slice(0, AROUND).replace(/\s\S*$/, "")} …` : line;
}
