/** Charts: uPlot in the page's own colours, as wide as their place, drawn anew when the colours change. */

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { byId } from "./element.js";
import { compact } from "./numbers.js";

const HEIGHT = 180;
const STEPS = [1, 2, 5].flatMap((digit) => [...Array(9).keys()].map((zeros) => digit * 10 ** zeros)).sort((one, other) => one - other);
const dark = matchMedia("(prefers-color-scheme: dark)");

/** The value of a colour of base.css. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A chart in the element with this id; *options* makes uPlot's options, and is asked again when the colours change. */
export class Chart {
  #place;
  #options;
  #height;
  #plot = null;
  #data = null;
  #shape = null;

  constructor(id, options, height = HEIGHT) {
    this.#place = byId(id);
    this.#options = options;
    this.#height = height;
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(this.#place);
    dark.addEventListener("change", () => { this.#shape = null; if (this.#data) this.show(this.#data, this.more); });
  }

  /** Show *data* in uPlot's form; *more* is handed to the options, and a chart of another shape is made anew. */
  show(data, more = null) {
    this.#data = data;
    this.more = more;
    const shape = JSON.stringify(more);
    if (this.#plot && shape === this.#shape) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#shape = shape;
    this.#plot = new uPlot({ ...this.#size(), ...this.#options(colour, more) }, data, this.#place);
  }

  #size() {
    return { width: Math.max(this.#place.clientWidth, 120), height: this.#height };
  }
}

/** What an axis looks like. */
export const axis = (colour, more = {}) => ({
  stroke: colour("muted"),
  font: "11px system-ui, sans-serif",
  grid: { stroke: colour("line"), width: 1 },
  ticks: { show: false },
  gap: 6,
  ...more,
});

/** An axis of time, on a clock of 24 hours. */
export const timeAxis = (colour) => axis(colour, {
  space: 64,
  size: 40,
  values: (_plot, splits, _index, _space, step) => splits.map((seconds, place) => {
    const when = new Date(seconds * 1000);
    const day = when.toLocaleDateString([], { month: "short", day: "numeric" });
    if (step >= 86_400) return day;
    const isNewDay = place === 0 || new Date(splits[place - 1] * 1000).getDate() !== when.getDate();
    const clock = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return isNewDay && step >= 3600 ? `${clock}\n${day}` : clock;
  }),
});

/** An axis of counts: from 0, whole numbers, no room wasted. */
export const countAxis = (colour) =>
  axis(colour, { size: 44, space: 36, incrs: STEPS, values: (_plot, splits) => splits.map(compact) });

/** A scale from 0 to a little above the highest count. */
export const countScale = { range: (_plot, _low, high) => [0, Math.max(high * 1.05, 1)] };

export const bars = (options) => uPlot.paths.bars(options);
