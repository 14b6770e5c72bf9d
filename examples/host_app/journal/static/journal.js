// Reads a streamed response piece by piece, as text.
async function* pieces(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// Reads the data of an event stream's events; comments have none.
async function* events(response) {
  let rest = "";
  for await (const piece of pieces(response)) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) if (block.startsWith("data: ")) yield block.slice(6);
  }
}

function onSubmit(id, output, send) {
  const form = document.getElementById(id);
  const place = document.getElementById(output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    place.textContent = "";
    try {
      await send(form, (text) => { place.textContent += text; });
    } catch (error) {
      place.textContent += `\n(${error.message})`;
    }
  });
}

onSubmit("summary", "summarised", async (form, show) => {
  const response = await fetch(form.action, { method: "POST", body: new FormData(form) });
  if (response.redirected) return location.assign(response.url); // the session has ended: log in again
  if (!response.ok) throw new Error(`the server says ${response.status}`);
  for await (const piece of pieces(response)) show(piece);
});

onSubmit("chat", "answer", async (form, show) => {
  const response = await fetch(form.action, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ stream: true, messages: [{ role: "user", content: form.question.value }] }),
  });
  if (!response.ok) throw new Error((await response.json()).error.message);
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message);
    for (const choice of event.choices) show(choice.delta.content ?? "");
  }
});
