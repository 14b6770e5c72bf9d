/** The time that the dashboard looks at, cut into the spans of its chart. */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/** By the name in the form: how long, in which spans, and whether the statistics have spans of that length. */
const RANGES = {
  hour: { length: HOUR, step: 2 * MINUTE, period: null },
  day: { length: DAY, step: HOUR, period: "hour" },
  week: { length: 7 * DAY, step: DAY / 4, period: "hour" },
  month: { length: 30 * DAY, step: DAY, period: "day" },
};

export class Span {
  /** *name* is one of hour, day, week, month; *now* in seconds. */
  constructor(name, now = Date.now() / 1000) {
    Object.assign(this, RANGES[name]);
    this.until = now;
    this.since = now - this.length;
  }

  /** Give the starts of all spans; those of days and hours begin where the statistics' do, in UTC. */
  get starts() {
    const first = Math.floor(this.since / this.step) * this.step;
    const starts = [];
    for (let start = first; start < this.until; start += this.step) starts.push(start);
    return starts;
  }

  /** Sum *items* up by span: *timeOf* and *countsOf* tell an item's time and its list of counts. */
  gathered(items, timeOf, countsOf, width) {
    const rows = new Map(this.starts.map((start) => [start, Array(width).fill(0)]));
    for (const item of items) {
      const row = rows.get(Math.floor(timeOf(item) / this.step) * this.step);
      if (row) countsOf(item).forEach((count, place) => { row[place] += count; });
    }
    return [...rows];
  }
}
