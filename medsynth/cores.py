"""Calls on several cores at a time, whose results come in their order; and fits on one thread."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
_here = threading.local()  # `taken`: whether this thread is one of several that calls are made on


def in_order(calls: Iterable[Callable[[], T]], most: int, at_once: int | None = None) -> Iterator[T]:
    """The results of `calls`, in their order; up to `most` at a time, one a core, as many ahead of what is due.

    Calls are taken in order, by this thread alone, each when its turn comes. With one core, with a `most` of one, and
    by a call that is itself one of several, each is made when its result is due. Raises what a call raises, in its
    turn; calls that have not begun are then not made. `at_once`: how many, if they wait for other machines.
    """
    threads = 1 if getattr(_here, "taken", False) else min(at_once or os.cpu_count() or 1, most)
    if threads <= 1:
        yield from (call() for call in calls)
        return
    pool = ThreadPoolExecutor(threads, initializer=setattr, initargs=(_here, "taken", True))
    due = deque[Future[T]]()
    try:
        for call in calls:
            due.append(pool.submit(call))
            if len(due) > threads:
                yield due.popleft().result()
        while due:
            yield due.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: on a busy machine more of them made fits of these small networks 40 times slower."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
