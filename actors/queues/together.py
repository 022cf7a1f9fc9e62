"""Together: what several workers of a lane want from the database at once is one transaction (group commit).

Owns who waits and the transaction that runs. Whoever comes first starts one; who comes while it runs goes with the
next. Nobody is waited for: a group is what is ready now, which for a lone worker is itself.

Survives: a member that goes wrong, or that is stopped before the commit. Then nothing of the group remains, and each
other member does its own in a transaction of its own, so that one bad job never harms another.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pagegate.storage.engine import DatabaseUnavailable

T = TypeVar("T")
R = TypeVar("R")


class Withdrawn(Exception):
    """A member of the group was stopped before the commit: roll back."""


# Does the work of all items in one transaction: an answer each, or the exception that this item alone gets. Raises
# whatever concerns all. Asks the second argument just before the commit: it raises `Withdrawn`.
Do = Callable[[Sequence[T], Callable[[], None]], Awaitable[Sequence[R | Exception]]]


class _Alone:
    """What a member is told that shall do its own by itself."""


@dataclass(eq=False)
class _Member(Generic[T]):
    item: T
    told: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    over: "asyncio.Future[None] | None" = None  # of one that has withdrawn and waits until its group is over

    @property
    def withdrawn(self) -> bool:
        return self.over is not None


class Together(Generic[T, R]):
    """See the module. One for all workers of a lane, for one sort of thing to do."""

    def __init__(self, do: Do[T, R]) -> None:
        self._do = do
        self._waiting: list[_Member[T]] = []
        self._members: list[_Member[T]] = []
        self._group: asyncio.Task[Sequence[R | Exception]] | None = None

    async def ask(self, item: T) -> R:
        """Do it, with others or alone. Raises what it came to; a cancel is raised once nothing of it is under way."""
        member = _Member(item)
        self._waiting.append(member)
        if self._group is None:
            self._start()
        try:
            told = await member.told
        except asyncio.CancelledError:
            await self._withdraw(member)
            raise
        if isinstance(told, _Alone):
            (told,) = await self._do([item], lambda: None)
            if isinstance(told, Exception):
                raise told
        answer: R = told
        return answer

    def _start(self) -> None:
        self._group = asyncio.get_running_loop().create_task(self._run())
        self._group.add_done_callback(self._ended)

    async def _run(self) -> Sequence[R | Exception]:
        # First thing in the task: whoever became ready in the same turn of the loop has joined by now.
        self._members, self._waiting = self._waiting, []
        return await self._do([member.item for member in self._members], self._check_all_stay)

    def _check_all_stay(self) -> None:
        if any(member.withdrawn for member in self._members):
            raise Withdrawn

    def _ended(self, group: "asyncio.Task[Sequence[R | Exception]]") -> None:
        members, self._members, self._group = self._members, [], None
        for member, outcome in zip(members, _outcomes(group, len(members)), strict=True):
            if member.over is not None:
                member.over.set_result(None)
            elif member.told.done():  # cancelled, and on its way to say so: it is over
                continue
            elif isinstance(outcome, BaseException):
                member.told.set_exception(outcome)
            else:
                member.told.set_result(outcome)
        if self._waiting:
            self._start()

    async def _withdraw(self, member: _Member[T]) -> None:
        """Leave; if the transaction is under way, wait until it is over. When all want that, it is interrupted."""
        if member in self._waiting:
            self._waiting.remove(member)
        if member not in self._members:
            if not member.told.cancelled():
                member.told.exception()  # seen: the cancel is what the caller hears of
            return
        over = member.over = asyncio.get_running_loop().create_future()
        if self._group is not None and all(one.withdrawn for one in self._members):
            self._group.cancel()
        while not over.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({over})


def _outcomes(group: "asyncio.Task[Sequence[Any]]", count: int) -> Sequence[Any]:
    if group.cancelled():
        return [_Alone()] * count
    error = group.exception()
    if error is None:
        return group.result()
    if count == 1 or isinstance(error, DatabaseUnavailable):
        return [error] * count
    return [_Alone()] * count
