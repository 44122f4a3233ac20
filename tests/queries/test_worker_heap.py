"""A Python worker's modules are frozen once, by its first task."""

import gc

import pytest

from streaming.queries import worker_heap
from streaming.queries.combiner import combine


def test_nothing_is_frozen_outside_a_task() -> None:
    before = gc.get_freeze_count()
    list(combine(iter([])))
    assert gc.get_freeze_count() == before


def test_the_first_task_of_a_worker_freezes_and_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Task:
        @staticmethod
        def get() -> object:
            return object()

    frozen: list[int] = []
    monkeypatch.setattr(worker_heap, "TaskContext", Task)
    monkeypatch.setattr(worker_heap.gc, "freeze", lambda: frozen.append(1))
    worker_heap._freeze_once.cache_clear()
    worker_heap.freeze_modules()
    worker_heap.freeze_modules()
    worker_heap._freeze_once.cache_clear()
    assert frozen == [1]
