"""From texts to candidate groups as users of datasketch and rensa do it; run by `dedup_speed`, by an interpreter that has them.

    python _dedup_peer.py datasketch|rensa TEXTS.json BANDS ROWS

Prints one JSON object: CPU seconds of this process, and the groups of two or more as lists of places.
"""

import json
import re
import sys
import time

SHINGLE_WORDS = 5
_WORD = re.compile(r"\w+")


def shingles(text):
    words = _WORD.findall(text.lower())
    taken = min(SHINGLE_WORDS, len(words))
    return {" ".join(words[i : i + taken]) for i in range(len(words) - taken + 1)} if words else set()


def by_datasketch(texts, bands, rows):
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=bands * rows, params=(bands, rows))
    signatures = []
    for place, text in enumerate(texts):
        signature = MinHash(num_perm=bands * rows)
        signature.update_batch([each.encode() for each in shingles(text)])
        signatures.append(signature)
        index.insert(place, signature, check_duplication=False)
    return [index.query(signature) for signature in signatures]


def by_rensa(texts, bands, rows):
    from rensa import RMinHash, RMinHashLSH  # pyrefly: ignore[missing-import]

    index = RMinHashLSH(threshold=0.8, num_perm=bands * rows, num_bands=bands)
    signatures = RMinHash.from_token_sets([list(shingles(text)) for text in texts], num_perm=bands * rows, seed=42)
    index.insert_many(signatures)
    return [index.query(signature) for signature in signatures]


def groups(found):
    parents = list(range(len(found)))

    def root(place):
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    for place, others in enumerate(found):
        for other in others:
            one, two = sorted((root(place), root(other)))
            parents[two] = one
    members = {}
    for place in range(len(found)):
        members.setdefault(root(place), []).append(place)
    return [each for each in members.values() if len(each) > 1]


def main(peer, path, bands, rows):
    with open(path, encoding="utf-8") as file:
        texts = json.load(file)
    run = {"datasketch": by_datasketch, "rensa": by_rensa}[peer]
    run(texts[:10], bands, rows)  # what is imported or set up once
    started = time.process_time()
    found = groups(run(texts, bands, rows))
    print(json.dumps({"seconds": time.process_time() - started, "groups": found}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
