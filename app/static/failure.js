/** What went wrong, in words for the person in front of the page. */

/** By the error's code: what it means, and what to do. */
const ADVICE = {
  invalid_api_key: "Sign in with a key of this gateway.",
  host_not_allowed: "Open the page by localhost, or add this host to SLUICE_ALLOWED_HOSTS.",
  upstream_auth: "The operator's OPENROUTER_API_KEY is missing or wrong.",
  upstream_unreachable: "Check the network and OPENROUTER_BASE_URL, then try again.",
  upstream_timeout: "The model may be overloaded. Try again, or raise SLUICE_FIRST_TOKEN_TIMEOUT or SLUICE_IDLE_TIMEOUT.",
  upstream_cut: "The provider ended the connection in the middle. Try again.",
  upstream_empty: "The provider ended without an answer. Try again, or another model.",
  upstream_protocol: "The provider sent something that is no chat completion.",
  deadline: "The whole request took longer than SLUICE_DEADLINE.",
  overloaded: "This worker has all the streams it may have. Try again in a moment.",
  draining: "The gateway is restarting. Try again in a moment.",
  store_unavailable: "The record's database cannot be asked: look at SLUICE_DATABASE_URL.",
  unreachable: "Is the gateway still running? Check its terminal, then try again.",
  broken: "What had come is above. Look at the gateway's log, then try again.",
};

/** By the HTTP status, where the code says nothing to us. */
const ADVICE_BY_STATUS = {
  401: "Sign in with a key of this gateway.",
  402: "The account has no credit left.",
  403: "This key may not do that.",
  408: "Try again.",
  413: "Send less text, or raise SLUICE_MAX_BODY_BYTES.",
  429: "Too many requests: wait a little, then try again.",
};

/** One failure. Its message is the server's own where there is one. */
export class Failure extends Error {
  constructor({ message, code = null, status = null, metadata = null }) {
    super(message);
    Object.assign(this, { name: "Failure", code, status, metadata });
  }

  /** What to do about it; null where nobody knows. */
  get advice() {
    const known = ADVICE[this.code] ?? ADVICE_BY_STATUS[this.status] ?? ADVICE_BY_STATUS[this.code]; // upstream's codes are statuses
    return known ?? (this.status >= 500 || this.code >= 500 ? "Try again, or another model." : null);
  }

  /** Whether the person wanted it so. */
  get isStop() {
    return this.code === "stopped";
  }

  /** Of the `error` object of an answer or a stream. */
  static ofObject(error, status = null) {
    const { message = "unknown error", code = null, metadata = null } = typeof error === "object" ? error : { message: String(error) };
    return new Failure({ message, code, status, metadata });
  }

  /** Of a response that is not 2xx. */
  static async ofResponse(response) {
    const body = await response.json().catch(() => null);
    if (body?.error) return Failure.ofObject(body.error, response.status);
    return new Failure({ message: `The gateway answered ${response.status} ${response.statusText}`.trim(), status: response.status });
  }

  /** Of what fetch threw. */
  static ofException(error) {
    if (error instanceof Failure) return error;
    if (error.name === "AbortError") return Failure.ofStop();
    return new Failure({ message: "The gateway cannot be reached", code: "unreachable" });
  }

  /** Of an answer that the person did not want to the end. */
  static ofStop() {
    return new Failure({ message: "Stopped", code: "stopped" });
  }

  /** Of a body that ended before it was over. */
  static ofCut() {
    return new Failure({ message: "The connection to the gateway broke", code: "broken" });
  }

  toJSON() {
    const { message, code, status, metadata } = this;
    return { message, code, status, metadata };
  }
}
