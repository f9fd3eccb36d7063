"""Seeds are functions of their parts, and never change: stored results depend on them."""

import hashlib

from vergence.core.seeding import derive, derive_pairs


def test_a_seed_is_the_hash_of_its_parts():
    digest = hashlib.blake2b(b"3\x1ftrain\x1f7", digest_size=8).digest()
    assert derive(3, "train", 7) == int.from_bytes(digest, "little") // 2


def test_seeds_of_pairs_are_those_of_their_parts():
    pairs = [(0, 0), (0, 11), (12, 3)]
    assert derive_pairs((0, "train", "sample"), pairs) == [derive(0, "train", "sample", a, b) for a, b in pairs]
    assert derive_pairs((), pairs) == [derive(a, b) for a, b in pairs]
