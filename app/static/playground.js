/** The playground: ties the conversation, the form and the gateway together. */

import { AnswerView } from "./answer.js";
import { Completion } from "./completion.js";
import { History } from "./conversation.js";
import { copyText } from "./clipboard.js";
import { drawers } from "./drawer.js";
import { byId, element } from "./element.js";
import { Failure } from "./failure.js";
import { about, ask } from "./gateway.js";
import { Models } from "./models.js";
import { Options } from "./options.js";
import { Session, signInButton } from "./session.js";
import { SnippetDialog } from "./snippet_dialog.js";

const session = new Session("sluice.key");
const options = new Options(byId("options"));
const models = new Models(byId("model"), session);
const history = new History();
const snippets = new SnippetDialog(byId("snippet"));

let conversation = history.conversations[0];
let running = null;
let views = [];
let isAtEnd = true;
let lastTop = 0;

/** Tell a screen reader, which is spared the tokens. */
const say = (text) => { byId("said").textContent = text; };

function show(chosen) {
  running?.stop();
  conversation = chosen;
  for (const view of views) view.remove?.();
  views = [];
  byId("turns").replaceChildren();
  for (const turn of conversation.turns) addTurn(turn);
  listConversations();
  scrollToEnd(true);
}

function addTurn(turn) {
  byId("welcome").hidden = true;
  if (turn.role === "user") {
    const root = element("article", { className: "turn question", ariaLabel: "You" }, element("p", { className: "plain" }, turn.text));
    views.push({ root, remove: () => root.remove() });
    byId("turns").append(root);
    return;
  }
  const view = new AnswerView(turn.completion, {
    regenerate: () => regenerate(turn),
    rate: (rating) => rateAnswer(turn, rating),
    snippet: () => snippets.open({ ...turn.completion.request, messages: turn.completion.request.messages ?? conversation.messages(turn.system, conversation.turns.indexOf(turn)) }),
    copy: copyText,
    grown: () => scrollToEnd(false),
  });
  views.push(view);
  byId("turns").append(view.root);
}

function listConversations() {
  byId("welcome").hidden = conversation.turns.length > 0;
  byId("conversations").replaceChildren(...history.conversations.filter((one) => one.turns.length).map((one) => {
    const open = element("button", { type: "button", className: "entry", ariaCurrent: one === conversation ? "true" : null, onclick: () => show(one) }, one.title);
    const remove = element("button", { type: "button", className: "quiet", ariaLabel: `Delete ${one.title}`, title: "Delete",
      onclick: () => { history.remove(one); show(history.conversations.includes(conversation) ? conversation : history.conversations[0]); } }, "×");
    return element("li", {}, open, remove);
  }));
}

/** Make the request for what is said so far; null, and a word about it, when the form is wrong. */
function requestNow() {
  let fields;
  try {
    fields = options.toRequest();
  } catch (error) {
    problem(`Further fields: expected a JSON object (${error.message})`);
    return null;
  }
  problem("");
  return { model: models.chosen, messages: conversation.messages(options.system), ...fields };
}

function problem(text) {
  byId("problem").textContent = text;
}

async function send(text) {
  if (running || !text.trim()) return;
  conversation.turns.push({ role: "user", text });
  const request = requestNow();
  if (!request) {
    conversation.turns.pop();
    return;
  }
  addTurn(conversation.turns.at(-1));
  byId("message").value = "";
  await answer(request);
}

async function regenerate(turn) {
  if (running) return;
  const place = conversation.turns.indexOf(turn);
  const rest = conversation.turns.splice(place);
  const request = requestNow();
  if (!request) {
    conversation.turns.push(...rest);
    return;
  }
  for (const view of views.splice(place)) view.remove();
  await answer(request);
}

async function answer(request) {
  const completion = (running = new Completion(request));
  const told = conversation;
  const turn = { role: "assistant", completion, system: options.system };
  told.turns.push(turn);
  isAtEnd = true;
  addTurn(turn);
  listConversations();
  showRunning();
  scrollToEnd(true);
  say("Waiting for the answer");
  await completion.run(session);
  running = null;
  history.keep();
  showRunning();
  say(outcome(completion));
}

function outcome({ state, tokens, failure }) {
  if (state === "done") return `The answer is complete: ${tokens} tokens`;
  return state === "stopped" ? "Stopped" : `The answer failed: ${failure.message}`;
}

function showRunning() {
  const [shown, gone] = running ? [byId("stop"), byId("send")] : [byId("send"), byId("stop")];
  const hadFocus = document.activeElement === gone;
  shown.hidden = false;
  gone.hidden = true;
  if (hadFocus) shown.focus();
  byId("turns").classList.toggle("is-running", running !== null);
}

async function rateAnswer({ completion }, rating) {
  try {
    const context = completion.metadata?.pipeline?.autotune?.detected_context ?? (await contextOf(completion));
    await rated({ message_id: completion.id, context_type: context, rating, model: completion.model });
    say("Thank you: AutoTune learns from it");
    return true;
  } catch (error) {
    problem(`The rating was not taken: ${Failure.ofException(error).message}`);
    return false;
  }
}

/** Send a rating; an answer that has only just ended may not be recorded yet. */
async function rated(body, pause = 200) {
  try {
    await ask(session, "v1/feedback", { body });
  } catch (error) {
    if (error.status !== 404 || pause > 5000) throw error;
    await new Promise((resolve) => setTimeout(resolve, pause));
    await rated(body, 2 * pause);
  }
}

/** A fixed strategy detects no context: ask for that of the question. */
async function contextOf(completion) {
  const place = conversation.turns.findIndex((turn) => turn.completion === completion);
  const message = conversation.turns[place - 1].text;
  return (await ask(session, "v1/autotune/analyze", { body: { message } })).detected_context;
}

function scrollToEnd(isForced) {
  const scroller = byId("scroller");
  if (isForced || isAtEnd) scroller.scrollTop = scroller.scrollHeight;
}

function listen() {
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send(byId("message").value);
  });
  byId("message").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(event.currentTarget.value);
  });
  byId("stop").addEventListener("click", () => {
    running?.stop();
    byId("message").focus();
  });
  byId("new").addEventListener("click", () => {
    show(history.begin());
    byId("message").focus();
  });
  byId("show-code").addEventListener("click", () => {
    const request = requestNow();
    const text = byId("message").value.trim() || "Hello!";
    if (request) snippets.open({ ...request, messages: [...request.messages, { role: "user", content: text }] });
  });
  for (const example of document.querySelectorAll("[data-example]")) {
    example.addEventListener("click", () => send(example.textContent));
  }
  byId("turns").addEventListener("click", ({ target }) => {
    if (target.matches("[data-copy]")) copyText(target.closest(".code").querySelector("code").textContent, target);
  });
  for (const leaving of ["beforeunload", "pagehide"]) { // not every browser tells both, and one of them cuts fetches before the second
    addEventListener(leaving, () => {
      running?.stop();
      history.keep();
    });
  }
  byId("scroller").addEventListener("scroll", ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
    if (scrollHeight - scrollTop - clientHeight < 48) isAtEnd = true;
    else if (scrollTop < lastTop) isAtEnd = false; // only a person scrolls up
    lastTop = scrollTop;
  }, { passive: true });
}

listen();
drawers();
signInButton(byId("sign"), session);
session.addEventListener("change", () => session.key && models.load());
byId("demo").hidden = !about.demo;
byId("demo-word").hidden = !about.demo;
models.load();
show(conversation);
