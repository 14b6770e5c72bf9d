"""Fit AutoTune's context model: `python scripts/fit_context.py` writes app/text/context.json, the same bytes each time.

`--check` only measures, by cross-validation over families; `--heldout` measures the model as it ships on the messages
that were set apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from app.text.features import Extractor
from app.text.lexicon import is_spaceless
from app.text.signs import SIGNS
from app.text.tokens import grams, words

CONTEXTS = ("code", "creative", "analytical", "conversational", "chaotic")
DATA = ROOT / "tests/data/contexts"
GROUP_L2, WORD_L2 = 0.4, 1.6
PRIOR = 0.35
HISTORY = 0.25
FOLDS = 10


def rows(*names):
    found = []
    for name in names:
        path = DATA / name
        if path.exists():
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return found


def lexicon():
    """Read the hand-written entries: {group: {pattern}}."""
    found = defaultdict(dict)
    for path in sorted((ROOT / "scripts/lexicon").glob("*.txt")):
        group = None
        for line in path.read_text(encoding="utf-8").splitlines():
            line = line.strip()
            if line.startswith("["):
                group = line.strip("[]")
            elif line and not line.startswith("#"):
                for entry in line.split(","):
                    for pattern in patterns_of(entry.strip()):
                        found[group][pattern] = None
    return deduplicated(found)


OBJECTS = {
    "code": ("code.object", "code.language", "code.tool"),
    "creative": ("creative.form",),
    "analytical": ("analytical.report", "analytical.compare"),
    "chaotic": ("chaotic.random", "chaotic.nonsense", "chaotic.glitch"),
    "trap": ("trap.code", "trap.creative"),
}
ORDER = (
    "trap.code", "trap.creative", "trap.chaotic",
    "code.language", "code.tool", "code.science", "code.trouble", "code.verb", "code.data", "code.machine",
    "code.people", "code.object", "code.file",
    "creative.form", "creative.role", "creative.make", "creative.story", "creative.entity", "creative.occasion",
    "analytical.compare", "analytical.evaluate", "analytical.report", "analytical.explain", "analytical.domain",
    "conversational.thanks", "conversational.greeting", "conversational.opinion", "conversational.feeling",
    "conversational.interjection", "conversational.everyday",
    "chaotic.nonsense", "chaotic.random", "chaotic.glitch", "chaotic.frenzy", "chaotic.silly",
)  # fmt: skip


def deduplicated(groups):
    """Let a pattern count for one group of each context, and mark what can be asked for."""
    objects = {f"object {kind}": {p: None for g in names for p in groups.get(g, ())} for kind, names in OBJECTS.items()}
    objects["object code"] = {p: None for p in objects["object code"] if p not in groups["trap.code"]}
    objects["object creative"] = {p: None for p in objects["object creative"] if p not in groups["trap.creative"]}
    seen = defaultdict(set)
    found = {}
    for name in [*ORDER, *sorted(set(groups) - set(ORDER))]:
        kind = name.split(".")[1] if name.startswith("trap.") else name.split(".")[0]
        if name in ORDER:
            found[name] = {p: None for p in groups.get(name, ()) if p not in seen[kind]}
            seen[kind] |= set(groups.get(name, ()))
        else:
            found[name] = dict(groups[name])
    return {name: patterns for name, patterns in (found | objects).items() if patterns}


def patterns_of(entry):
    """Give the patterns an entry stands for: words, pairs for longer phrases, also without accents."""
    entry = unicodedata.normalize("NFC", entry).casefold()
    if not entry:
        return
    stem = entry.endswith("*")
    entry = entry.rstrip("*")
    variants = {entry: None, plain(entry): None}
    for variant in variants:
        if is_spaceless(variant):
            yield variant
            continue
        tokens = words(variant)
        if not tokens:
            continue
        if stem:
            if len(tokens) > 1:
                yield " ".join(tokens[:3])
                continue
            yield tokens[0] + "*"
        elif len(tokens) == 1:
            yield tokens[0]
        else:
            yield " ".join(tokens[:3])


def plain(text):
    """Drop accents of Latin letters."""
    if not text or not all(ch < "\u0250" or "\u1e00" <= ch < "\u1f00" for ch in text):
        return text
    return "".join(ch for ch in unicodedata.normalize("NFD", text) if not unicodedata.combining(ch))


def vocabulary(data, known):
    """Choose words, pairs and characters to learn on their own: those of several families."""
    families = defaultdict(set)
    firsts = defaultdict(set)
    for row in data:
        text = unicodedata.normalize("NFC", row["text"]).casefold()
        tokens = words(text)
        for pattern in {
            *tokens,
            *map(" ".join, zip(tokens, tokens[1:])),
            *(g for g in grams(text) if len(g.strip()) > 1 and " " not in g),
        }:
            families[pattern].add(row["family"])
        if tokens:
            firsts[tokens[0]].add(row["family"])
    chosen = [p for p, f in families.items() if len(f) >= (4 if " " in p else 3) and not p.isdigit()]
    first = [p for p, f in firsts.items() if len(f) >= 3]
    return sorted(chosen), sorted(first)


def feature_names(groups, chosen, firsts):
    kinds = tuple(OBJECTS)
    asks = ("lead.make", "lead.ask", "lead.follow", "analytical.explain", "analytical.evaluate", "creative.make")
    names = [
        *groups,
        *(f"more {g}" for g in groups),
        *(f"early {g}" for g in groups),
        *(f"{w} {k}" for w in ("head", "topic") for k in kinds),
    ]
    names += [f"ask {a}" for a in asks] + [f"{a} {k}" for a in asks for k in (*kinds, "nothing known")]
    names += [*SIGNS]
    strong = len(names)
    names += [f"word {p}" for p in chosen] + [f"first {p}" for p in firsts]
    return names, strong


class Features:
    def __init__(self, data):
        self.groups = lexicon()
        chosen, firsts = vocabulary(data, self.groups)
        self.names, self.strong = feature_names(self.groups, chosen, firsts)
        self.numbers = {name: n for n, name in enumerate(self.names)}
        self.entries = {g: list(p) for g, p in self.groups.items()}
        self.entries |= {f"word {p}": [p] for p in chosen}
        self.extractor = Extractor(self.entries, self.numbers)

    def matrix(self, texts, **clip):
        data, indices, indptr = [], [], [0]
        for text in texts:
            values = self.extractor.extract(text, **clip).values
            for number in sorted(values):
                indices.append(number)
                data.append(values[number])
            indptr.append(len(indices))
        return csr_matrix((data, indices, indptr), shape=(len(texts), len(self.names)))


def prior(names):
    """Where the weights are drawn to: a group speaks for the context it is named after."""
    found = np.zeros((len(names), 5))
    for number, name in enumerate(names):
        for place, context in enumerate(CONTEXTS):
            if name.startswith(context + ".") and not name.startswith("early"):
                found[number, place] = PRIOR
    return found


def softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def fit(X, y, names, strong, weights=None):
    n, d = X.shape
    base = prior(names)
    l2 = np.full((d, 1), WORD_L2)
    l2[:strong] = GROUP_L2
    Y = np.eye(5)[y]
    sw = np.ones(n) if weights is None else weights
    XT = X.T.tocsr()

    def loss(theta):
        W = theta[: d * 5].reshape(d, 5)
        b = theta[d * 5 :]
        z = X @ W + b
        m = z.max(axis=1, keepdims=True)
        lse = m[:, 0] + np.log(np.exp(z - m).sum(axis=1))
        p = np.exp(z - lse[:, None])
        value = (sw * (lse - (z * Y).sum(axis=1))).sum() + 0.5 * (l2 * (W - base) ** 2).sum() + 0.05 * (b**2).sum()
        g = (p - Y) * sw[:, None]
        gw = XT @ g + l2 * (W - base)
        gb = g.sum(axis=0) + 0.1 * b
        return value, np.concatenate([gw.ravel(), gb])

    start = np.concatenate([base.ravel(), np.zeros(5)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return found.x[: d * 5].reshape(d, 5), found.x[d * 5 :]


def folds(data):
    """Share families over folds, by the hash-free rule of their sorted place."""
    order = {f: i for i, f in enumerate(sorted({r["family"] for r in data}))}
    rng = np.random.default_rng(7)
    spread = rng.permutation(len(order))
    return np.array([spread[order[r["family"]]] % FOLDS for r in data])


def cross_validate(data, extra=()):
    """Give logits of each row by a model that has not seen its family."""
    y = np.array([CONTEXTS.index(r["label"]) for r in data])
    part = folds(data)
    out = np.zeros((len(data), 5))
    for k in range(FOLDS):
        train = [r for r, p in zip(data, part) if p != k] + list(extra)
        test = [i for i, p in enumerate(part) if p == k]
        F = Features(train)
        X = F.matrix([r["text"] for r in train])
        W, b = fit(X, np.array([CONTEXTS.index(r["label"]) for r in train]), F.names, F.strong)
        for i in test:
            out[i] = logits(F, W, b, data[i])
    return out, y


def logits(F, W, b, row):
    """Score a row: its own text, and the last four messages before it with a lower weight."""
    texts = [row["text"], *(m["content"] for m in (row.get("history") or [])[-4:])]
    Z = F.matrix([texts[0]]) @ W + b
    if len(texts) > 1:
        Z = Z + HISTORY * (F.matrix(texts[1:], head=500, tail=0) @ W).mean(axis=0)
    return Z[0]


def temperature(Z, y):
    """Find what the logits have to be divided by for the shares to be honest."""
    rows_ = np.arange(len(y))
    grid = np.arange(0.6, 4.0, 0.05)
    losses = [-np.log(softmax(Z / t)[rows_, y] + 1e-12).mean() for t in grid]
    return round(float(grid[int(np.argmin(losses))]), 2)


def report(title, data, Z, t):
    y = np.array([CONTEXTS.index(r["label"]) for r in data])
    p = softmax(Z / t)
    right = Z.argmax(1) == y
    sure = p.max(1)
    mean_right, mean_wrong = sure[right].mean(), sure[~right].mean()
    print(f"{title}: {right.mean():.1%} of {len(y)}; confidence {mean_right:.3f} right, {mean_wrong:.3f} wrong")
    for key in ("difficulty", "lang"):
        parts = Counter(r[key] for r in data)
        shown = [f"{k} {right[[r[key] == k for r in data]].mean():.1%} of {n}" for k, n in parts.most_common(12)]
        print(f"  {key}: " + ", ".join(shown))
    print("  | labelled \\ found | " + " | ".join(CONTEXTS) + " |")
    for n, context in enumerate(CONTEXTS):
        print(
            f"  | {context} | " + " | ".join(str(int(((y == n) & (Z.argmax(1) == m)).sum())) for m in range(5)) + " |"
        )
    return right


def write(F, W, b, t):
    """Write the model, features without weight left out."""
    weights = np.round(W, 3)
    kept = [n for n in range(len(F.names)) if np.abs(weights[n]).max() >= 0.01]
    names = [F.names[n] for n in kept]
    model = {
        "contexts": CONTEXTS,
        "names": names,
        "entries": {name: sorted(F.entries[name]) for name in names if name in F.entries},
        "weights": [[float(x) for x in weights[n]] for n in kept],
        "bias": [round(float(x), 3) for x in b],
        "temperature": t,
        "history": HISTORY,
    }
    path = ROOT / "app/text/context.json"
    path.write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size} bytes, {len(names)} features")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="measure by cross-validation, write nothing")
    parser.add_argument("--wrong", action="store_true", help="list what cross-validation got wrong")
    parser.add_argument("--heldout", action="store_true", help="measure the shipped model on the messages set apart")
    asked = parser.parse_args()
    data, extra = rows("train.jsonl"), rows("train_extra.jsonl")
    if asked.heldout:
        from app.text.context import detect

        held = rows("heldout.jsonl")
        found = [detect(r["text"], [m["content"] for m in r.get("history") or []]) for r in held]
        Z = np.array([[{c: s for c, s, _ in f.scores}[c] for c in CONTEXTS] for f in found])
        report("set apart", held, Z, json.loads((ROOT / "app/text/context.json").read_text())["temperature"])
        return
    Z, y = cross_validate(data, extra)
    t = temperature(Z, y)
    right = report("cross-validation", data, Z, t)
    for i in np.flatnonzero(~right) if asked.wrong else ():
        r = data[i]
        print(
            r["id"],
            r["lang"],
            r["difficulty"],
            r["label"],
            "->",
            CONTEXTS[Z[i].argmax()],
            r["text"][:150].replace("\n", " "),
        )
    if not asked.check:
        everything = data + extra
        F = Features(everything)
        W, b = fit(
            F.matrix([r["text"] for r in everything]),
            np.array([CONTEXTS.index(r["label"]) for r in everything]),
            F.names,
            F.strong,
        )
        write(F, W, b, t)


if __name__ == "__main__":
    main()
