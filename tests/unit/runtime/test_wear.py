"""When a worker is replaced (V4)."""

import pytest

from pagegate.actors.compiling.slot import Wear, may_stay, wants_successor, worn_by


@pytest.mark.parametrize(
    ("tasks_done", "age_s", "heap_share", "reason"),
    [
        (0, 0.0, 0.0, None),
        (24, 1799.0, 0.74, None),
        (25, 0.0, 0.0, "tasks"),
        (0, 1800.0, 0.0, "age"),
        (0, 0.0, 0.75, "heap"),
    ],
)
def test_worker_is_worn_out_by_tasks_age_or_heap(
    tasks_done: int, age_s: float, heap_share: float, reason: str | None
) -> None:
    assert worn_by(Wear(), tasks_done=tasks_done, age_s=age_s, heap_share=heap_share) == reason


def test_successor_is_wanted_before_the_worker_is_worn_out_and_not_long_before() -> None:
    def wanted(tasks_done: int = 0, age_s: float = 0.0, heap_share: float = 0.0) -> bool:
        return wants_successor(Wear(), tasks_done=tasks_done, age_s=age_s, heap_share=heap_share)

    assert [wanted(tasks_done=n) for n in (1, 21, 22, 24)] == [False, False, True, True]
    assert [wanted(age_s=s) for s in (1000.0, 1750.0)] == [False, True]
    assert [wanted(heap_share=h) for h in (0.5, 0.7)] == [False, True]


def test_worn_out_worker_stays_until_its_successor_is_warm_but_not_for_ever() -> None:
    def stays(tasks_done: int = 0, heap_share: float = 0.0, *, reuse: bool = True) -> bool:
        return may_stay(Wear(reuse=reuse), tasks_done=tasks_done, age_s=99_999.0, heap_share=heap_share)

    assert [stays(tasks_done=n) for n in (25, 49, 50)] == [True, True, False]
    assert [stays(heap_share=h) for h in (0.8, 0.9)] == [True, False]
    assert not stays(tasks_done=1, reuse=False)


def test_without_reuse_one_task_wears_a_worker_out_and_a_successor_is_always_wanted() -> None:
    wear = Wear(reuse=False)
    assert worn_by(wear, tasks_done=0, age_s=0.0, heap_share=0.0) is None
    assert worn_by(wear, tasks_done=1, age_s=0.0, heap_share=0.0) == "one_shot"
    assert wants_successor(wear, tasks_done=1, age_s=0.0, heap_share=0.0)
