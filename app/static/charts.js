/** The dashboard's charts, each told what to show. */

import { axis, bars, Chart, countAxis, countScale, timeAxis } from "./chart.js";
import { GROUPS } from "./ending.js";
import { count } from "./numbers.js";

const QUIET = { legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } } };

/** Requests over time, stacked by how they ended. */
export class EndingsChart {
  #counts = [];
  #chart = new Chart("chart-endings", (colour, { since, until }) => ({
    ...QUIET,
    legend: { show: true, live: true },
    scales: { x: { range: [since, until] }, y: countScale },
    axes: [timeAxis(colour), countAxis(colour)],
    series: [{ label: "From", value: (_plot, x) => (x === null ? "–" : new Date(x * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short", hourCycle: "h23" })) },
      ...GROUPS.map((group, place) => ({
        label: group.name,
        fill: colour(`end-${group.id}`),
        stroke: colour(`end-${group.id}`),
        width: 0,
        points: { show: false },
        paths: bars({ size: [0.82, 64], align: 1 }),
        value: (_plot, _raw, _series, index) => count(index === null ? sum(this.#counts.map((row) => row[place])) : this.#counts[index][place]),
      })).reverse()],
  }), 192);

  /** *rows* are [start, counts by group], one for each span from *since* to *until*. */
  show(rows, since, until) {
    this.#counts = rows.map(([, counts]) => counts);
    // Stacked: the last group's bar reaches to the sum of all and is drawn first, the others over it.
    const upTo = GROUPS.map((_, place) => this.#counts.map((counts) => sum(counts.slice(0, place + 1))));
    this.#chart.show([rows.map(([start]) => start), ...upTo.reverse()], { since, until });
  }
}

/** Streams in flight, over the last minutes. */
export class FlightChart {
  #chart = new Chart("chart-flight", (colour) => ({
    ...QUIET,
    scales: { x: { range: (_plot, _low, high) => [high - 300, high] }, y: { range: (_plot, _low, high) => [0, Math.max(high * 1.15, 4)] } },
    axes: [timeAxis(colour), countAxis(colour)],
    series: [{}, { stroke: colour("accent"), fill: colour("accent-soft"), width: 2, points: { show: false } }],
  }));

  /** *points* are [time, streams]. */
  show(points) {
    this.#chart.show([points.map(([time]) => time), points.map(([, streams]) => streams)]);
  }
}

/** A distribution: how many fell into each span of time. */
export class SpreadChart {
  #chart;

  constructor(id) {
    this.#chart = new Chart(id, (colour, { labels }) => ({
      ...QUIET,
      scales: { x: { time: false, range: [-0.6, labels.length - 0.4] }, y: countScale },
      axes: [
        axis(colour, { size: 28, grid: { show: false }, splits: labels.map((_, place) => place), values: () => thinned(labels), space: 1 }),
        countAxis(colour),
      ],
      series: [{}, { fill: colour("end-answered"), stroke: colour("end-answered"), width: 0, points: { show: false }, paths: bars({ size: [0.86, 64] }) }],
    }));
  }

  /** *buckets* are [upper bound in seconds, count]. */
  show(buckets) {
    const labels = buckets.map(([bound], place) => (bound === Infinity ? `>${spoken(buckets[place - 1]?.[0] ?? 0)}` : spoken(bound)));
    this.#chart.show([labels.map((_, place) => place), buckets.map(([, amount]) => amount)], { labels });
  }
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const spoken = (seconds) => (seconds < 1 ? `${+(seconds * 1000).toFixed(1)}ms` : `${seconds}s`);

/** Leave out every other label where there are many. */
const thinned = (labels) => labels.map((label, place) => (labels.length < 8 || place % 2 === 0 ? label : ""));
