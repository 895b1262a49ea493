"""Run calls on several cores, with results in order; and run fits on one thread."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
THREADS = "OMP_NUM_THREADS"  # PyTorch reads it when it is imported, which may be during a fit.
_here = threading.local()  # `taken`: whether this thread belongs to a pool of `in_order`


def in_order(calls: Iterable[Callable[[], T]], most: int, at_once: int | None = None) -> Iterator[T]:
    """Yield the results of `calls` in order. Run up to `most` calls at a time, one per core, ahead of the result due.

    This thread alone takes the calls from the iterable, in order. With one core, with a `most` of one, or inside
    another `in_order`, each call runs when its result is due. An exception of a call is raised when its result is due,
    and calls that have not begun are dropped. `at_once`: calls at a time, if they wait for other machines.
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
    """Compute on one thread. On a busy machine, more threads made fits of these small networks 40 times slower."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    own = {THREADS: os.environ.pop(THREADS)} if THREADS in os.environ else {}
    os.environ[THREADS] = "1"
    if torch:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        if torch:
            torch.set_num_threads(before)
        del os.environ[THREADS]
        os.environ.update(own)
