"""Fit AutoTune's context model: `python scripts/fit_context.py` writes app/text/context.json, the same bytes each time.

`--check` only measures, by cross-validation over families; `--wrong` lists what that got wrong; `--heldout` measures
the model as it ships on the messages that were set apart.

The hand-written words are in scripts/lexicon: `[group]` opens a group, entries are separated by commas. An entry is a
word, `begin*` for all words that begin so, two or three words (further ones are dropped), or up to three characters of
a script without spaces. Words with accents count without them too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np
from scipy.sparse import csr_matrix, hstack

from app.text.context import CONTEXTS, EARLIER_HEAD, EARLIER_TAIL, detect, earlier_shares
from app.text.features import ASKS, OBJECTS, Extractor
from app.text.lexicon import BEGIN
from app.text.signs import SIGNS
from app.text.tokens import grams, is_spaceless, words
from app.text.weights import tone_share

Row = dict[str, Any]
DATA = ROOT / "tests/data/contexts"
MODEL = ROOT / "app/text/context.json"
VECTORS = ROOT / "scripts/vectors.npz"
GROUP_L2, WORD_L2, MEANING_L2 = 0.3, 0.07, 0.1
"""How strongly weights are drawn to where they start: groups and signs, single words, what words mean."""
PRIOR = 0.5
"""Where a group's weight starts for the context it is named after."""
EARLIER = (0.5, 0.25)
"""How much earlier messages count for a short message, and for a long one."""
RUNS = 8
"""Fits from other seeds, of which the mean is taken."""
ROUNDS, BATCH = 8, 512
"""How often each run sees all messages, and how many at a time."""
HIDDEN = 0.5
"""Share of what a message shows that is hidden each time it is seen."""
STEP, MEMORY = 0.02, (0.9, 0.99)
"""Adam's first step, which falls to nothing, and how it remembers slopes and their squares."""
FOLDS = 10
UNIT = 100
LEAST = 10
"""Hundredths that one of the weights of a word or sign has at least, for it to be kept."""
OBJECT_GROUPS = {
    "code": ("code.object", "code.language", "code.tool"),
    "creative": ("creative.form",),
    "analytical": ("analytical.report", "analytical.compare"),
    "chaotic": ("chaotic.random", "chaotic.nonsense", "chaotic.glitch"),
    "trap": ("trap.code", "trap.creative"),
}
PRECEDENCE = (
    "trap.code", "trap.creative", "trap.chaotic",
    "code.language", "code.tool", "code.science", "code.trouble", "code.verb", "code.data", "code.machine",
    "code.people", "code.object", "code.file",
    "creative.form", "creative.role", "creative.make", "creative.story", "creative.entity", "creative.occasion",
    "analytical.compare", "analytical.evaluate", "analytical.report", "analytical.explain", "analytical.domain",
    "conversational.thanks", "conversational.greeting", "conversational.opinion", "conversational.feeling",
    "conversational.interjection", "conversational.everyday",
    "chaotic.nonsense", "chaotic.random", "chaotic.glitch", "chaotic.frenzy", "chaotic.silly",
)  # fmt: skip
"""Which of the groups of one kind has a word that stands in several."""


def rows(*names: str) -> list[Row]:
    """Read labelled messages."""
    lines = [line for name in names for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


def lexicon() -> dict[str, list[str]]:
    """Read the hand-written entries by group."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for path in sorted((ROOT / "scripts/lexicon").glob("*.txt")):
        group = ""
        for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()):
            if line.startswith("["):
                group = line.strip("[]")
            elif line and not line.startswith("#"):
                for entry in line.split(","):
                    found[group].update(dict.fromkeys(patterns_of(entry.strip())))
    return deduplicated({group: list(patterns) for group, patterns in found.items()})


def patterns_of(entry: str) -> Iterator[str]:
    """Give the patterns an entry stands for."""
    entry = unicodedata.normalize("NFC", entry).casefold()
    star = "*" if entry.endswith("*") else ""
    for variant in dict.fromkeys((entry.rstrip("*"), plain(entry.rstrip("*")))):
        if is_spaceless(variant):
            yield variant
        elif tokens := words(variant):
            yield " ".join(tokens[:3]) + (star if len(tokens) == 1 else "")


def plain(text: str) -> str:
    """Drop the accents of Latin letters."""
    if not all(character < "\u0250" or "\u1e00" <= character < "\u1f00" for character in text):
        return text
    parts = unicodedata.normalize("NFD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


def deduplicated(groups: dict[str, list[str]]) -> dict[str, list[str]]:
    """Let a pattern count for one group of each kind, and mark in groups of their own what can be asked for."""
    traps = {*groups["trap.code"], *groups["trap.creative"]}
    found: dict[str, list[str]] = {}
    seen: dict[str, set[str]] = defaultdict(set)
    for name in [*PRECEDENCE, *sorted(set(groups) - set(PRECEDENCE))]:
        kind = name.split(".")[name.startswith("trap.")]
        taken = seen[kind] if name in PRECEDENCE else set()
        found[name] = [pattern for pattern in groups[name] if pattern not in taken]
        taken.update(groups[name])
    for kind, names in OBJECT_GROUPS.items():
        patterns = dict.fromkeys(pattern for name in names for pattern in groups[name])
        found[f"object {kind}"] = [pattern for pattern in patterns if kind == "trap" or pattern not in traps]
    return {name: patterns for name, patterns in found.items() if patterns}


def vocabulary(data: list[Row]) -> tuple[list[str], list[str]]:
    """Choose what to learn on its own: words, beginnings, phrases, characters and firsts that several families have."""
    families: dict[str, set[str]] = defaultdict(set)
    firsts: dict[str, set[str]] = defaultdict(set)
    for row in data:
        text = unicodedata.normalize("NFC", row["text"]).casefold()
        tokens = words(text)
        begins = (f"{word[:BEGIN]}+" for word in tokens if len(word) > BEGIN and not is_spaceless(word))
        pairs = map(" ".join, zip(tokens, tokens[1:], strict=False))
        threes = map(" ".join, zip(tokens, tokens[1:], tokens[2:], strict=False))
        runs = (gram for gram in grams(text) if len(gram) > 1 and " " not in gram)
        for pattern in {*tokens, *begins, *pairs, *threes, *runs}:
            families[pattern].add(row["family"])
        for length in (1, 2):
            firsts[" ".join(tokens[:length])].add(row["family"])
    chosen = (
        pattern
        for pattern, names in families.items()
        if len(names) >= 2 + (pattern.count(" ") > 1) and not pattern.isdigit() and "," not in pattern
    )
    return sorted(chosen), sorted(first for first, names in firsts.items() if len(names) > 1 and first)


class Meanings:
    """What common English words mean, as vectors (scripts/build_vectors.py)."""

    def __init__(self) -> None:
        with np.load(VECTORS) as data:
            self.places = {word: place for place, word in enumerate(str(data["words"]).split())}
            vectors = data["vectors"].astype(float)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.width = vectors.shape[1]

    def tone(self, tones: list[str]) -> np.ndarray:
        """Give what some words mean together."""
        return tone_share(len(tones)) * self.vectors[[self.places[word] for word in sorted(tones)]].sum(axis=0)


class Features:
    """The features that some training messages give rise to, and the matrices of them."""

    def __init__(self, data: list[Row]) -> None:
        groups = lexicon()
        self.meanings = Meanings()
        chosen, firsts = vocabulary(data)
        self.groups = list(groups)
        self.entries = groups | {f"word {pattern}": [pattern] for pattern in chosen}
        self.names = [*groups, *_placed(self.groups), *SIGNS]
        self.shared = len(self.names)
        self.names += [*(f"word {pattern}" for pattern in chosen), *(f"first {first}" for first in firsts)]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.extractor = Extractor(self.entries, self.numbers, self.meanings.places)

    def matrix(self, data: Iterable[Row]) -> csr_matrix:
        """Give the features of messages, then what they mean; those of earlier messages are added with their share."""
        tones: list[np.ndarray] = []
        values: list[float] = []
        columns: list[int] = []
        ends = [0]
        for row in data:
            summed: dict[int, float] = defaultdict(float)
            tones.append(np.zeros(self.meanings.width))
            self._add(row["text"], 1.0, summed, tones[-1])
            history = [message["content"] for message in row.get("history") or ()]
            for text, share in earlier_shares(row["text"], history, EARLIER):
                self._add(text, share, summed, tones[-1], head=EARLIER_HEAD, tail=EARLIER_TAIL)
            for number in sorted(summed):
                columns.append(number)
                values.append(summed[number])
            ends.append(len(columns))
        shown = csr_matrix((values, columns, ends), shape=(len(ends) - 1, len(self.names)))
        return hstack([shown, csr_matrix(np.array(tones))]).tocsr()

    def _add(self, text: str, share: float, summed: dict[int, float], tone: np.ndarray, **clip: int) -> None:
        found = self.extractor.extract(text, **clip)
        tone += share * self.meanings.tone(found.tones)
        for number in found.present:
            summed[number] += share
        for number, strength in found.strengths.items():
            summed[number] += share * strength


def _placed(groups: list[str]) -> Iterator[str]:
    """Name the features that depend on how often a group shows or where."""
    for group in groups:
        if not group.startswith("object "):
            yield f"more {group}"
    for kind in OBJECTS:
        yield f"head {kind}"
        yield f"topic {kind}"
    for ask in ASKS:
        yield f"ask {ask}"
        for kind in (*OBJECTS, "nothing known"):
            yield f"{ask} {kind}"


def labels(data: list[Row]) -> np.ndarray:
    """Give the labels as numbers."""
    return np.array([CONTEXTS.index(row["label"]) for row in data])


def fit(features: Features, data: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Find the weights and biases: multinomial logistic regression, drawn to where the weights start.

    It is the mean of several runs in which half of what a message shows is hidden whenever it is seen, so that no
    weight relies on another's being there. The mean of linear models is one, and better than each.
    """
    known, target = features.matrix(data).astype(np.float32), np.eye(len(CONTEXTS), dtype=np.float32)[labels(data)]
    count = len(features.names) + features.meanings.width
    start = np.zeros((count, len(CONTEXTS)), dtype=np.float32)
    for number, name in enumerate(features.names):
        if name.split(".")[0] in CONTEXTS and name in features.entries:
            start[number, CONTEXTS.index(name.split(".")[0])] = PRIOR
    pull = np.full((count, 1), WORD_L2, dtype=np.float32)
    pull[: features.shared] = GROUP_L2
    pull[len(features.names) :] = MEANING_L2
    runs = [run(known, target, start, pull / len(data), seed) for seed in range(RUNS)]
    return np.mean([weights for weights, _ in runs], axis=0), np.mean([bias for _, bias in runs], axis=0)


def run(
    known: csr_matrix, target: np.ndarray, start: np.ndarray, pull: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find weights and biases once, by Adam."""
    random = np.random.default_rng(seed)
    weights, bias = start.copy(), np.zeros(target.shape[1], dtype=np.float32)
    steppers = Stepper(weights), Stepper(bias)
    steps = ROUNDS * -(-len(target) // BATCH)
    for step, places in enumerate(batches(len(target), random), 1):
        shown = known[places]
        shown.data *= (random.random(shown.nnz, dtype=np.float32) >= HIDDEN) / np.float32(1 - HIDDEN)
        off = (shares(shown @ weights + bias, 1.0) - target[places]) / len(places)
        slopes = shown.T.tocsr() @ off + pull * (weights - start), off.sum(axis=0)
        for stepper, slope in zip(steppers, slopes, strict=True):
            stepper.move(slope, step, STEP * (1 - step / (steps + 1)))
    return weights, bias


def batches(count: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Give places of messages to see together, each message once a round."""
    for _ in range(ROUNDS):
        order = random.permutation(count)
        yield from (order[place : place + BATCH] for place in range(0, count, BATCH))


class Stepper:
    """Moves numbers down their slopes, by Adam's rule."""

    def __init__(self, point: np.ndarray) -> None:
        self._point, self._slope, self._square = point, np.zeros_like(point), np.zeros_like(point)

    def move(self, slope: np.ndarray, step: int, length: float) -> None:
        """Take the *step*-th step, of about *length* in each number."""
        for mean, now, kept in ((self._slope, slope, MEMORY[0]), (self._square, slope * slope, MEMORY[1])):
            mean *= kept
            mean += (1 - kept) * now
        root = np.sqrt(self._square / (1 - MEMORY[1] ** step)) + 1e-6
        self._point -= length * (self._slope / (1 - MEMORY[0] ** step)) / root


def cross_validate(data: list[Row], extra: list[Row]) -> np.ndarray:
    """Score each message by a model that has seen nothing of its family."""
    families = sorted({row["family"] for row in data})
    fold = dict(zip(families, np.random.default_rng(7).permutation(len(families)) % FOLDS, strict=True))
    scores = np.zeros((len(data), len(CONTEXTS)))
    for number in range(FOLDS):
        seen = [row for row in data if fold[row["family"]] != number] + extra
        places = [place for place, row in enumerate(data) if fold[row["family"]] == number]
        features = Features(seen)
        weights, bias = fit(features, seen)
        scores[places] = features.matrix([data[place] for place in places]) @ weights + bias
    return scores


def shares(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Give each context's share."""
    powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def temperature_of(scores: np.ndarray, truth: np.ndarray) -> float:
    """Find what scores have to be divided by for the shares to be honest."""
    places = np.arange(len(truth))
    grid = np.arange(20, 400, 5) / 100
    losses = [-np.log(shares(scores, value)[places, truth] + 1e-12).mean() for value in grid]
    return float(grid[int(np.argmin(losses))])


def report(title: str, data: list[Row], scores: np.ndarray, temperature: float) -> np.ndarray:
    """Print how well *scores* do."""
    truth, found = labels(data), scores.argmax(axis=1)
    right, sure = truth == found, shares(scores, temperature).max(axis=1)
    print(f"{title}: {right.mean():.1%} of {len(data)}, at temperature {temperature:g}")
    print(f"  mean confidence: {sure[right].mean():.3f} of right ones, {sure[~right].mean():.3f} of wrong ones")
    for low, high in ((0.0, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01)):
        part = (sure >= low) & (sure < high)
        if part.any():
            print(f"  confidence {low:.1f}-{min(high, 1.0):.1f}: {right[part].mean():.1%} of {part.sum()} are right")
    for key in ("difficulty", "lang"):
        for value, count in Counter(row[key] for row in data).most_common():
            part = np.array([row[key] == value for row in data])
            print(f"  {key} {value}: {right[part].mean():.1%} of {count}")
    part = np.array([bool(row.get("history")) for row in data])
    if part.any():
        print(f"  with history: {right[part].mean():.1%} of {part.sum()}")
    print("  | labelled | " + " | ".join(CONTEXTS) + " |")
    for number, context in enumerate(CONTEXTS):
        counts = [int(((truth == number) & (found == other)).sum()) for other in range(len(CONTEXTS))]
        print(f"  | {context} | " + " | ".join(map(str, counts)) + " |")
    return right


def write(features: Features, weights: np.ndarray, bias: np.ndarray, temperature: float) -> None:
    """Write the model in hundredths; what has no weight is left out, groups stay for what they show together."""
    whole = np.round(weights * UNIT).astype(int)
    model: dict[str, Any] = {
        "contexts": CONTEXTS,
        "temperature": temperature,
        "earlier": EARLIER,
        "bias": [round(float(value), 2) for value in bias],
        "groups": {},
        "signs": {},
        "words": {},
        "tones": {},
    }
    tones = np.round(features.meanings.vectors @ weights[len(features.names) :] * UNIT).astype(int)
    model["tones"] = {word: tones[place].tolist() for word, place in features.meanings.places.items()}
    for number, name in enumerate(features.names):
        row = [int(value) for value in whole[number]]
        if name in features.groups:
            model["groups"][name] = [row, ",".join(sorted(features.entries[name]))]
        elif max(map(abs, row)) >= LEAST:
            kind = "words" if name.startswith("word ") else "signs"
            model[kind][name.removeprefix("word ")] = row
    MODEL.write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    kinds = ", ".join(f"{len(model[kind])} {kind}" for kind in ("groups", "signs", "words", "tones"))
    print(f"{MODEL.name}: {MODEL.stat().st_size} bytes, {kinds}")


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="measure by cross-validation, write nothing")
    parser.add_argument("--wrong", action="store_true", help="list what cross-validation got wrong")
    parser.add_argument("--heldout", action="store_true", help="measure the shipped model on the messages set apart")
    asked = parser.parse_args()
    if asked.heldout:
        temperature = json.loads(MODEL.read_text(encoding="utf-8"))["temperature"]
        for names in (["heldout.jsonl"], ["examined.jsonl"], ["heldout.jsonl", "examined.jsonl"]):
            apart = rows(*names)
            found = [detect(row["text"], [message["content"] for message in row.get("history") or ()]) for row in apart]
            scores = np.array([[score for _, score, _ in detection.scores] for detection in found])
            report(" and ".join(names), apart, scores, temperature)
        return
    data, extra = rows("train.jsonl"), rows("train_extra.jsonl", "train_more.jsonl", "train_wide.jsonl")
    scores = cross_validate(data, extra)
    temperature = temperature_of(scores, labels(data))
    right = report("cross-validation", data, scores, temperature)
    for place in np.flatnonzero(~right) if asked.wrong else ():
        row = data[place]
        text = row["text"][:150].replace("\n", " ")
        print(row["id"], row["lang"], row["difficulty"], row["label"], "->", CONTEXTS[scores[place].argmax()], text)
    if not asked.check:
        features = Features(data + extra)
        write(features, *fit(features, data + extra), temperature)


if __name__ == "__main__":
    main()
