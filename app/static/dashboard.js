/** The dashboard: asks the record and the metrics again and again, and shows what they say. */

import { bar } from "./bar.js";
import { EndingsChart, FlightChart, SpreadChart } from "./charts.js";
import { byId, element } from "./element.js";
import { byGroup, GROUPS, wordsOf } from "./ending.js";
import { EventsTable } from "./events_table.js";
import { Failure } from "./failure.js";
import { about } from "./gateway.js";
import { showModels } from "./models_table.js";
import { compact, count, dollars, duration, percent } from "./numbers.js";
import { RecordOf } from "./record.js";
import { Session, signInButton } from "./session.js";
import { Span } from "./span.js";

const LIVE_EVERY = 2000; // milliseconds
const RECORD_EVERY = 10_000;
const KEPT_POINTS = 150;

const session = new Session("sluice.metadata_key");
const record = new RecordOf(session);
const events = new EventsTable(record, (error) => failed("events", error));
const endings = new EndingsChart();
const flight = new FlightChart();
const firstChunk = new SpreadChart("chart-first");
const gaps = new SpreadChart("chart-gaps");

const points = [];
const problems = new Map();
let isClosed = false;
let ended = null;
let wasWaiting = false;

const isPaused = () => isClosed || document.hidden || !byId("live").checked;

/** Say what is wrong, in one place for the whole page; null when *source* works again. */
function failed(source, error) {
  if (error === null) problems.delete(source);
  else problems.set(source, Failure.ofException(error));
  isClosed = [...problems.values()].some(({ status }) => status === 401 || status === 403 || status === 404);
  const told = byId("trouble");
  told.hidden = problems.size === 0;
  told.replaceChildren(...[...new Map([...problems.values()].map((failure) => [failure.message, failure])).values()].map(trouble));
}

function trouble(failure) {
  const isKey = failure.status === 401;
  return element("div", {},
    element("strong", {}, isKey ? "Sign in to see the dashboard" : failure.status === 404 ? "The dashboard is closed" : "The dashboard cannot be brought up to date"),
    element("p", {}, isKey ? "Only the operator may look: the key is the gateway's SLUICE_METADATA_KEY." : `${failure.message}. ${failure.status === 404 ? "" : failure.advice ?? ""}`),
    isKey && element("button", { type: "button", onclick: () => session.ask() }, "Sign in"));
}

async function showLive() {
  try {
    const metrics = await record.metrics();
    failed("metrics", null);
    showFlight(metrics);
    spread(firstChunk, "first", metrics.histogram("sluice_first_chunk_seconds"));
    spread(gaps, "gaps", metrics.histogram("sluice_chunk_gap_seconds"));
    showAttempts(metrics.by("sluice_upstream_attempts_total", "outcome"));
    byId("queue").textContent = queueWords(metrics);
    await lookForNew(metrics);
  } catch (error) {
    failed("metrics", error);
  }
}

/** Ask for new events once a request has ended, and again while its record waits to be written. */
async function lookForNew(metrics) {
  const seen = metrics.sum("sluice_request_seconds_count");
  const isDue = ended !== null && (seen !== ended || wasWaiting);
  [ended, wasWaiting] = [seen, metrics.sum("sluice_record_queue") > 0];
  if (isDue) await events.refresh();
}

function showFlight(metrics) {
  const open = metrics.sum("sluice_open_streams") ?? 0;
  points.push([Date.now() / 1000, open]);
  if (points.length > KEPT_POINTS) points.shift();
  byId("tile-flight").textContent = count(open);
  flight.show(points);
}

function spread(chart, name, buckets) {
  const total = buckets.reduce((sum, [, amount]) => sum + amount, 0);
  byId(`${name}-empty`).hidden = total > 0;
  byId(`chart-${name}`).hidden = total === 0;
  byId(`${name}-note`).textContent = total ? `${count(total)} since the workers started; half within ${middle(buckets, total, 0.5)}, 95 % within ${middle(buckets, total, 0.95)}` : "";
  if (total) chart.show(trimmed(buckets));
}

/** Give the bucket in which the share lies. */
function middle(buckets, total, share) {
  let sum = 0;
  const [bound] = buckets.find(([, amount]) => (sum += amount) >= total * share);
  return bound === Infinity ? "more than the last bound" : duration(bound * 1000);
}

/** Leave out empty buckets at the slow end, but for one. */
function trimmed(buckets) {
  const last = buckets.findLastIndex(([, amount]) => amount > 0);
  return buckets.slice(0, Math.max(last + 2, 6));
}

function showAttempts(outcomes) {
  const sorted = Object.entries(outcomes).sort(([, one], [, other]) => other - one);
  const all = sorted.reduce((sum, [, amount]) => sum + amount, 0);
  byId("attempts-empty").hidden = all > 0;
  byId("attempts").replaceChildren(...sorted.map(([outcome, amount]) => element("li", {},
    element("span", {}, wordsOf(outcome)), bar(amount / all), element("span", { className: "number" }, count(amount)))));
}

function queueWords(metrics) {
  const waiting = metrics.sum("sluice_record_queue") ?? 0;
  const dropped = metrics.sum("sluice_records_dropped_total") ?? 0;
  const lost = dropped ? `, ${count(dropped)} records were lost` : "";
  return `${count(waiting)} records wait to be written${lost}. ${count(metrics.sum("sluice_heartbeats_total"))} heartbeats sent.`;
}

async function showRecord() {
  const span = new Span(byId("range").elements.range.value);
  try {
    const [models, rows] = await Promise.all([record.stats(span.since, "model"), rowsOf(span)]);
    failed("record", null);
    showTotals(models.totals);
    showModels(models.data);
    endings.show(rows, span.starts[0], span.starts.at(-1) + span.step);
    byId("updated").textContent = `Totals since ${clock(models.since, span)}, brought up to date at ${clock(Date.now() / 1000)}`;
  } catch (error) {
    failed("record", error);
  }
}

/** A time of day, with its date where *span* is longer than a day. */
function clock(seconds, span = null) {
  const when = new Date(seconds * 1000);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: span ? undefined : "2-digit", hourCycle: "h23" });
  return span && span.period ? `${when.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}` : time;
}

/** Give [start, counts by group] for each span: of the statistics, or, for the last hour, of the events themselves. */
async function rowsOf(span) {
  if (span.period) {
    const { data } = await record.stats(span.starts[0], "period", span.period);
    return span.gathered(data, (row) => row.start, (row) => byGroup(row.end_reasons), GROUPS.length);
  }
  const { events: found, isWhole } = await record.all(span.starts[0]);
  byId("endings-note").textContent = isWhole ? "" : `Only the newest ${count(found.length)} requests are drawn.`;
  return span.gathered(found, (event) => event.created_at, (event) => byGroup({ [event.end_reason]: 1 }), GROUPS.length);
}

function showTotals(totals) {
  const set = (name, value, note) => {
    byId(`tile-${name}`).textContent = value;
    byId(`tile-${name}-note`).textContent = note;
  };
  set("requests", count(totals.requests), totals.stm_changed ? `${count(totals.stm_changed)} corrected by STM` : "in this time");
  set("success", percent(totals.requests ? totals.success_rate : null), reasons(totals.end_reasons));
  const within = ({ p95 }) => (p95 === null ? "median" : `median; 95 % within ${duration(p95)}`);
  set("first", duration(totals.first_chunk_ms.p50), within(totals.first_chunk_ms));
  set("total", duration(totals.total_ms.p50), within(totals.total_ms));
  set("tokens", compact(totals.total_tokens), `${compact(totals.prompt_tokens)} in, ${compact(totals.completion_tokens)} out`);
  set("cost", dollars(totals.cost), "as upstream reported it");
  set("retries", count(totals.retries), "further attempts upstream");
}

/** Name what went wrong most. */
function reasons(counts) {
  const bad = Object.entries(counts).filter(([reason, amount]) => amount && !GROUPS[0].reasons.includes(reason))
    .sort(([reason, one], [another, other]) => other - one || reason.localeCompare(another));
  return bad.slice(0, 2).map(([reason, amount]) => `${count(amount)} ${wordsOf(reason)}`).join(", ") || "nothing went wrong";
}

function every(milliseconds, work) {
  const tick = async () => {
    if (!isPaused()) await work();
    setTimeout(tick, milliseconds);
  };
  setTimeout(tick, milliseconds);
}

async function showAll() {
  await showLive(); // first alone: whoever has to sign in is asked once
  if (!isClosed) await Promise.all([showRecord(), events.load()]);
}

signInButton(byId("sign"), session);
session.addEventListener("change", () => {
  problems.clear();
  if (session.key) showAll();
  else location.reload(); // nothing stays on the page of who has signed out
});
byId("demo").hidden = !about.demo;
byId("range").addEventListener("change", showRecord);
every(LIVE_EVERY, showLive);
every(RECORD_EVERY, () => Promise.all([showRecord(), events.refresh()]));
showAll();
