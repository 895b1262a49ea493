"""A transport between sites and server of one process."""

import contextlib
from collections.abc import Mapping, Sequence

from medsynth.federated.transport import Answer, Came


class InProcess:
    """Sites in this process, by name. It counts the bytes of all messages."""

    def __init__(self, sites: Mapping[str, Answer]) -> None:
        self.sites = dict(sites)
        self.sent = 0
        self.received = 0

    def call(self, sites: Sequence[str], message: bytes, came: Came = lambda name: None) -> Mapping[str, bytes]:
        """Return the answers, asking one site after another."""
        found = {}
        for name in sites:
            with contextlib.suppress(ConnectionError):
                found[name] = self.sites[name](message)
                came(name)
                self.sent += len(message)
                self.received += len(found[name])
        return found
