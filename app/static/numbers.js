/** Numbers as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count: 1,234. */
export const count = (value) => whole.format(value ?? 0);

/** A count where there is little room: 1.2K. */
export const compact = (value) => short.format(value ?? 0);

/** Milliseconds: "412 ms", "3.2 s", "2 min 5 s". */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** US dollars, as many digits as a small sum needs. */
export function dollars(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "$0";
  return `$${value.toFixed(value < 0.01 ? 6 : value < 1 ? 4 : 2)}`;
}

/** A share from 0 to 1: "97.5 %". */
export const percent = (share) =>
  share === null || share === undefined ? "–" : `${(share * 100).toFixed(share > 0 && share < 1 ? 1 : 0)} %`;

/** A setting's number without binary dust: 0.135. */
export const plain = (value) => (typeof value === "number" ? String(+value.toFixed(4)) : String(value));
