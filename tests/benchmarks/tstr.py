"""Train on synthetic, test on real: the report's own protocol, for benchmarks. See medsynth/report/protocol.py."""

from medsynth.report.data.protocol import classifiers, majority_floor, score

__all__ = ["classifiers", "majority_floor", "score"]
