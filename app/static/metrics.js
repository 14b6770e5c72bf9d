/** Prometheus' text, as /metrics gives it. */

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of one reading. */
export class Metrics {
  #samples = new Map();

  constructor(text) {
    for (const line of text.split("\n")) {
      const found = !line.startsWith("#") && SAMPLE.exec(line);
      if (!found) continue;
      const [, name, labels = "", value] = found;
      if (!this.#samples.has(name)) this.#samples.set(name, []);
      this.#samples.get(name).push({ labels: readLabels(labels), value: Number(value.replace("Inf", "Infinity")) });
    }
  }

  /** Sum a metric up over its labels; null where it is not there. */
  sum(name) {
    const samples = this.#samples.get(name);
    return samples ? samples.reduce((sum, { value }) => sum + value, 0) : null;
  }

  /** Sum a metric up by one of its labels. */
  by(name, label) {
    const sums = {};
    for (const { labels, value } of this.#samples.get(name) ?? []) sums[labels[label]] = (sums[labels[label]] ?? 0) + value;
    return sums;
  }

  /** Give a histogram as [upper bound, count in this bucket], all labels taken together. */
  histogram(name) {
    const upTo = new Map();
    for (const { labels, value } of this.#samples.get(`${name}_bucket`) ?? []) {
      const bound = Number(labels.le.replace("Inf", "Infinity"));
      upTo.set(bound, (upTo.get(bound) ?? 0) + value);
    }
    const sorted = [...upTo].sort(([one], [other]) => one - other);
    return sorted.map(([bound, count], place) => [bound, count - (sorted[place - 1]?.[1] ?? 0)]);
  }
}

function readLabels(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name] = value.replace(/\\(.)/g, (_, sign) => (sign === "n" ? "\n" : sign));
  }
  return labels;
}
