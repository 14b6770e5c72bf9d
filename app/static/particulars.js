/** What happened to a request, from x_g0dm0d3: what the pipeline decided and why, attempts, timing, cost. */

import { element, facts } from "./element.js";
import { count, dollars, duration, percent, plain } from "./numbers.js";

/** Make the readable account of a finished completion. */
export function particulars(completion) {
  const told = completion.metadata ?? {};
  const { autotune, parseltongue, stm, ...others } = told.pipeline ?? {};
  return element("div", { className: "particulars" },
    section("Request", requestFacts(completion, told)),
    autotune !== undefined && section("AutoTune", autotune ? autotuneFacts(autotune) : null, "It did not run for this request."),
    told.params_used && Object.keys(told.params_used).length > 0 && section("Parameters used", facts(Object.entries(told.params_used).map(([name, value]) => [name, plain(value)]))),
    parseltongue && section("Parseltongue", facts([
      ["technique", parseltongue.technique_used], ["intensity", parseltongue.intensity], ["seed", parseltongue.seed],
      ["words changed", parseltongue.transformations_count], ["triggers found", listed(parseltongue.triggers_found)]])),
    stm && section("STM", stmFacts(stm)),
    Object.entries(others).filter(([, note]) => note).map(([name, note]) => section(name, element("pre", { tabIndex: 0 }, JSON.stringify(note, null, 2)))),
    told.attempts && section("Attempts", attemptList(told.attempts)),
    told.stage_errors?.length > 0 && section("Stages that failed", facts(told.stage_errors.map((one) => [one.stage ?? "stage", one.error ?? JSON.stringify(one)]))),
    element("details", {}, element("summary", {}, "As JSON"),
      element("pre", { tabIndex: 0 }, JSON.stringify({ x_g0dm0d3: told, usage: completion.usage }, null, 2))));
}

function section(title, content, otherwise = "") {
  return element("section", {}, element("h4", {}, title), content ?? element("p", { className: "muted" }, otherwise));
}

function requestFacts({ id, usage, firstTokenMs, totalMs, model }, told) {
  return facts([
    ["model", told.model ?? model],
    ["first chunk", told.timing && `${duration(told.timing.first_chunk_ms)} at the gateway${firstTokenMs ? `, ${duration(firstTokenMs)} here` : ""}`],
    ["total", duration(told.timing?.total_ms ?? totalMs)],
    ["tokens", usage && tokensOf(usage)],
    ["cost", usage?.cost !== undefined ? dollars(usage.cost) : null],
    ["record", told.record_id], ["completion", id], ["generation", told.generation_id]]);
}

/** What was counted, as far as it was. */
function tokensOf({ prompt_tokens: read, completion_tokens: written, is_estimate: isEstimate }) {
  const parts = [[read, "in"], [written, "out"]].filter(([amount]) => amount !== null && amount !== undefined);
  return `${isEstimate ? "about " : ""}${parts.map(([amount, way]) => `${count(amount)} ${way}`).join(", ")}`;
}

function autotuneFacts({ detected_context: context, confidence, reasoning, strategy }) {
  return facts([
    ["strategy", strategy], ["context", context && `${context}, ${percent(confidence)} sure`], ["why", reasoning]]);
}

function stmFacts(stm) {
  return facts([
    ["modules", listed(stm.modules_applied)], ["mode", stm.mode], ["changed", stm.changed ? "yes" : "no"],
    ["length", stm.changed ? `${count(stm.original_length)} → ${count(stm.transformed_length)} characters` : `${count(stm.original_length)} characters`],
    ["held back at most", `${count(stm.held_chars_max)} characters`], ["skipped", stm.skipped]]);
}

function attemptList(attempts) {
  if (!Array.isArray(attempts)) return element("p", {}, String(attempts));
  return element("ol", { className: "attempts" }, attempts.map((attempt) => {
    const { status, error, outcome, ...rest } = attempt;
    const more = Object.entries(rest).map(([name, value]) => `${name} ${value}`).join(", ");
    return element("li", {}, [status, outcome, error, more].filter((part) => part !== null && part !== undefined && part !== "").join(" · "));
  }));
}

const listed = (values) => (Array.isArray(values) ? values.join(", ") : values);
