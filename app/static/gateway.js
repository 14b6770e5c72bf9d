/** The gateway this page came from: what it told about itself, and how to call it. */

import { Failure } from "./failure.js";

/** What the server wrote into the page. */
export const about = JSON.parse(document.querySelector('meta[name="gateway"]').content);

/** Give the address of a path of the API, wherever the gateway is mounted. */
export const address = (path) => new URL(path, document.baseURI).href;

/**
 * Call the API as *session*. A 401 asks for a key once, and calls again.
 * Throws Failure for every answer that is not 2xx, and where there is none.
 */
export async function call(session, path, { body, signal, accept } = {}) {
  const { key } = session;
  const response = await send(session, path, body, signal, accept);
  if (response.ok) return response;
  const failure = await Failure.ofResponse(response);
  const isOver = session.key !== key; // another call asked meanwhile
  if (response.status !== 401 || !(isOver || (await session.ask(failure)))) throw failure;
  return call(session, path, { body, signal, accept });
}

/** Call the API and read the answer as JSON; otherwise as call. */
export async function ask(session, path, options) {
  const response = await call(session, path, options);
  try {
    return await response.json();
  } catch (error) {
    throw Failure.ofException(error);
  }
}

async function send(session, path, body, signal, accept) {
  const headers = { ...session.headers() };
  if (accept) headers.Accept = accept;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  try {
    return await fetch(address(path), { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    throw Failure.ofException(error);
  }
}
