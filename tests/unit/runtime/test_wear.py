"""When a worker is replaced (V4)."""

import pytest

from pagegate.actors.compiling.slot import Wear, wants_successor, worn_out


@pytest.mark.parametrize(
    ("tasks_done", "age_s", "heap_share", "worn"),
    [
        (0, 0.0, 0.0, False),
        (24, 1799.0, 0.74, False),
        (25, 0.0, 0.0, True),
        (0, 1800.0, 0.0, True),
        (0, 0.0, 0.75, True),
    ],
)
def test_worker_is_worn_out_by_tasks_age_or_heap(tasks_done: int, age_s: float, heap_share: float, worn: bool) -> None:
    assert worn_out(Wear(), tasks_done=tasks_done, age_s=age_s, heap_share=heap_share) is worn


def test_successor_is_wanted_before_the_worker_is_worn_out_and_not_long_before() -> None:
    def wanted(tasks_done: int = 0, age_s: float = 0.0, heap_share: float = 0.0) -> bool:
        return wants_successor(Wear(), tasks_done=tasks_done, age_s=age_s, heap_share=heap_share)

    assert [wanted(tasks_done=n) for n in (1, 21, 22, 24)] == [False, False, True, True]
    assert [wanted(age_s=s) for s in (1000.0, 1750.0)] == [False, True]
    assert [wanted(heap_share=h) for h in (0.5, 0.7)] == [False, True]


def test_without_reuse_one_task_wears_a_worker_out_and_a_successor_is_always_wanted() -> None:
    wear = Wear(reuse=False)
    assert not worn_out(wear, tasks_done=0, age_s=0.0, heap_share=0.0)
    assert worn_out(wear, tasks_done=1, age_s=0.0, heap_share=0.0)
    assert wants_successor(wear, tasks_done=1, age_s=0.0, heap_share=0.0)
