"""Entropy whose first bytes a test chooses."""

from medsynth.rng import SeededEntropy


class Words:
    """Entropy that gives chosen bytes, call by call, then a seed's."""

    source = "chosen words"

    def __init__(self, *chosen: bytes) -> None:
        self.chosen, self.rest, self.calls = list(chosen), SeededEntropy(0), list[int]()

    def bytes(self, count: int) -> bytes:
        self.calls.append(count)
        if not self.chosen:
            return self.rest.bytes(count)
        found = self.chosen.pop(0)
        return found + self.rest.bytes(count - len(found))


def one(coin: int, level: int, word: int, *more: bytes) -> Words:
    return Words(bytes([coin]), level.to_bytes(4, "little"), word.to_bytes(8, "little"), *more)
