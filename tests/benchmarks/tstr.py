"""Train on synthetic, test on real: the report's own protocol, for benchmarks. See medsynth/report/data/protocol.py."""

from medsynth.report.data.protocol import LABELS, majority_floor, score

__all__ = ["LABELS", "majority_floor", "score"]
