/** How requests end: the record's reasons, in the five groups that somebody has to do something about. */

export const GROUPS = [
  { id: "answered", name: "Answered", reasons: ["completed", "length", "tool_calls", "content_filter"] },
  { id: "left", name: "Client left", reasons: ["client_disconnected", "client_stalled"] },
  { id: "rejected", name: "Rejected", reasons: ["rejected"] },
  { id: "upstream", name: "Upstream failed",
    reasons: ["upstream_error", "upstream_cut", "upstream_timeout", "upstream_empty", "deadline"] },
  { id: "gateway", name: "Gateway", reasons: ["draining", "internal_error"] },
];

export const REASONS = GROUPS.flatMap((group) => group.reasons);

const GROUP_OF = new Map(GROUPS.flatMap((group) => group.reasons.map((reason) => [reason, group])));

/** Give the group of a reason; one that this page does not know counts as the gateway's. */
export const groupOf = (reason) => GROUP_OF.get(reason) ?? GROUPS.at(-1);

/** Add counts by reason up into counts by group, in the groups' order. */
export function byGroup(counts) {
  const sums = new Map(GROUPS.map((group) => [group, 0]));
  for (const [reason, count] of Object.entries(counts)) sums.set(groupOf(reason), sums.get(groupOf(reason)) + count);
  return [...sums.values()];
}

/** The reason in words: "client disconnected". */
export const wordsOf = (reason) => reason.replaceAll("_", " ");
