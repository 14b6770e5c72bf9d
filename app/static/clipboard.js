/** Copying, with a word about it on the button that was pressed. */

const SAID_FOR = 1500; // milliseconds

/** Copy *text*; *button* says for a moment whether it worked. */
export async function copyText(text, button) {
  const before = button.textContent;
  button.textContent = (await copied(text)) ? "Copied" : "Select it, then copy";
  setTimeout(() => { button.textContent = before; }, SAID_FOR);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text); // is there on localhost and over https only
    return true;
  } catch {
    return false;
  }
}
