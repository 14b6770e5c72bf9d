/** Tokens, cost, times and success by model. */

import { bar } from "./bar.js";
import { byId, element } from "./element.js";
import { compact, count, dollars, duration, percent } from "./numbers.js";

/** Show the rows of the statistics by model, the busiest first. */
export function showModels(rows) {
  const sorted = [...rows].sort((one, other) => other.requests - one.requests);
  const most = Math.max(...sorted.map((row) => row.total_tokens), 1);
  byId("models-empty").hidden = sorted.length > 0;
  byId("models-table").hidden = sorted.length === 0;
  byId("models-rows").replaceChildren(...sorted.map((row) => element("tr", {},
    element("th", { scope: "row" }, row.model || "none"),
    number(count(row.requests)),
    number(percent(row.success_rate)),
    number(duration(row.first_chunk_ms.p50)),
    number(duration(row.first_chunk_ms.p95)),
    number(`${compact(row.prompt_tokens)} / ${compact(row.completion_tokens)}`),
    element("td", { className: "bar-cell" }, bar(row.total_tokens / most)),
    number(dollars(row.cost)))));
}

const number = (text) => element("td", { className: "number" }, text);
