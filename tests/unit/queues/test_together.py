"""Group commit: what is ready goes together, nobody waits for others, and a bad member harms itself only (Q3)."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from pagegate.actors.queues.together import Together
from pagegate.storage.engine import DatabaseUnavailable


class Transactions:
    """Plays the database: a group is open until `go`; items that are exceptions are raised."""

    def __init__(self) -> None:
        self.begun: list[list[object]] = []
        self.committed: list[object] = []
        self.go = asyncio.Event()
        self.go.set()

    async def do(self, items: Sequence[object], check: Callable[[], None]) -> Sequence[str | Exception]:
        self.begun.append(list(items))
        await self.go.wait()
        for item in items:
            if isinstance(item, BaseException):
                raise item
        check()
        self.committed += [item for item in items if item != "lost"]
        return [KeyError("lost") if item == "lost" else f"did {item}" for item in items]


async def asked(together: Together[object, str], *items: object) -> list[str | BaseException]:
    return list(await asyncio.gather(*[together.ask(item) for item in items], return_exceptions=True))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_ready_at_once_is_one_transaction() -> None:
    database = Transactions()
    assert await asked(Together(database.do), "a", "b", "c") == ["did a", "did b", "did c"]
    assert database.begun == [["a", "b", "c"]]


async def test_who_comes_first_is_not_kept_waiting_and_who_comes_meanwhile_goes_next() -> None:
    database = Transactions()
    database.go.clear()
    together = Together(database.do)
    first = asyncio.create_task(together.ask("a"))
    await turns()
    later = [asyncio.create_task(together.ask(item)) for item in ("b", "c")]
    await turns()
    assert database.begun == [["a"]]
    database.go.set()
    assert await asyncio.gather(first, *later) == ["did a", "did b", "did c"]
    assert database.begun == [["a"], ["b", "c"]]


async def test_a_member_that_raises_undoes_the_group_and_each_other_is_done_alone() -> None:
    database = Transactions()
    bad = ZeroDivisionError("bad")
    assert await asked(Together(database.do), "a", bad, "c") == ["did a", bad, "did c"]
    assert database.begun[0] == ["a", bad, "c"]
    assert database.committed == ["a", "c"]


async def test_a_member_that_is_answered_an_exception_costs_the_others_nothing() -> None:
    database = Transactions()
    answers = await asked(Together(database.do), "a", "lost", "c")
    assert (answers[0], type(answers[1]), answers[2]) == ("did a", KeyError, "did c")
    assert len(database.begun) == 1


async def test_a_database_that_is_away_is_told_to_all_of_them() -> None:
    database = Transactions()
    away = DatabaseUnavailable("away")
    assert await asked(Together(database.do), "a", away, "c") == [away, away, away]
    assert len(database.begun) == 1


async def test_a_member_that_is_stopped_before_the_commit_leaves_nothing_and_the_others_are_done() -> None:
    database = Transactions()
    database.go.clear()
    together = Together(database.do)
    tasks = [asyncio.create_task(together.ask(item)) for item in ("a", "b")]
    await turns()
    tasks[0].cancel()
    await turns()
    assert not tasks[0].done(), "what is under way with it is waited for"
    database.go.set()
    assert await tasks[1] == "did b"
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert database.committed == ["b"]


async def test_when_all_are_stopped_the_transaction_is_interrupted() -> None:
    database = Transactions()
    database.go.clear()
    together = Together(database.do)
    tasks = [asyncio.create_task(together.ask(item)) for item in ("a", "b")]
    await turns()
    for task in tasks:
        task.cancel()
    ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert [type(end) for end in ended] == [asyncio.CancelledError] * 2
    assert database.committed == []
    database.go.set()
    assert await together.ask("c") == "did c"


async def test_a_member_that_is_stopped_while_it_waits_is_never_begun() -> None:
    database = Transactions()
    database.go.clear()
    together = Together(database.do)
    first = asyncio.create_task(together.ask("a"))
    await turns()
    second = asyncio.create_task(together.ask("b"))
    await turns()
    second.cancel()
    await turns()
    database.go.set()
    assert await first == "did a"
    assert second.cancelled()
    assert database.begun == [["a"]]


async def test_a_lone_member_is_raised_what_it_came_to_without_a_second_try() -> None:
    database = Transactions()
    with pytest.raises(ZeroDivisionError):
        await Together(database.do).ask(ZeroDivisionError())
    assert len(database.begun) == 1
