/** An event stream, read from a fetch response as the WHATWG's rules say. */

/** Give the data of each event as it comes; returns at the end of the body, and rejects where reading fails. */
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const lines = new Lines();
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const line of lines.feed(value)) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops reading hangs up, and so stops the answer
  }
}

/** Finds lines that end in LF, CR or CRLF, in text that comes in pieces. */
class Lines {
  #rest = "";
  #endedInCr = false;

  feed(text) {
    if (this.#endedInCr && text.startsWith("\n")) text = text.slice(1);
    this.#endedInCr = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop();
    return lines;
  }
}
