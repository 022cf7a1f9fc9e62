"""AgentBackgroundRunManager: ordinary runs execute here, outside any request (A7).

Owns the runs that this process executes, and those that wait for their turn. Hears `ExecuteRun`, `StopRun`,
`StopExecuting`, and its timers; tells nobody. While it executes a run it says so in the run's row; a run that is no
longer its own is let go. It also ends what nobody executes any more: at the start, the runs of this host's dead
processes; from time to time, those that were silent for too long.

Survives a crash: a new life takes up what is still queued for this process. Closing a stream or a browser is nothing
that it hears of.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
import structlog

from pagegate.actors.agents.execution import PROCESS_STOPPED, Execution
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.limits import AgentLimits
from pagegate.actors.kernel import Actor, Asks, ChildEnded
from pagegate.storage import interrupted_runs, sessions
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.interrupted_runs import Owner

log = structlog.get_logger()


@dataclass(frozen=True)
class ExecuteRun:
    """A queued run of this process is there."""

    run_id: int


@dataclass(frozen=True)
class StopRun:
    """The run is over, or should be: stop working on it. A hint; the run's row says so anyway."""

    run_id: int


@dataclass(frozen=True)
class StopExecuting(Asks[None]):
    """End what is executed, and take nothing new: the process is going to stop. Answered when all of it has ended."""


@dataclass(frozen=True)
class _Ended:
    run_id: int
    ended: ChildEnded[None]


@dataclass(frozen=True)
class _Beat:
    pass


@dataclass(frozen=True)
class _Sweep:
    pass


def is_alive(owner: Owner, heartbeat_at_ms: int) -> bool:
    """Whether a process of this host is the one that a run names: it lives, and was born before it last was heard of.

    A number that was given to another process meanwhile is no sign of life, and neither is this process's own.
    """
    if owner.pid == psutil.Process().pid:
        return False  # the same number, another life: a container that was started again
    try:
        return psutil.Process(owner.pid).create_time() * 1000 <= heartbeat_at_ms
    except psutil.Error:
        return False


class AgentBackgroundRunManager(Actor):
    def __init__(self, db: Database, execution: Execution, feed: RunFeed, owner: str, limits: AgentLimits) -> None:
        super().__init__()
        self._db, self._execution, self._feed, self._owner, self._limits = db, execution, feed, owner, limits
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._waiting: deque[int] = deque()
        self._stopping = False

    async def setup(self) -> None:
        self.every(self._limits.heartbeat_s, _Beat())
        self.every(self._limits.sweep_s, _Sweep())
        await self._recover()
        self._fill()

    async def teardown(self) -> None:
        await self._stop_all()

    async def on_receive(self, message: Any) -> Any:
        match message:
            case ExecuteRun(run_id):
                if not self._stopping:
                    self._waiting.append(run_id)
                    self._fill()
                else:
                    await self._end_queued([run_id])
            case _Ended(run_id, _):
                self._tasks.pop(run_id, None)
                self._fill()
            case StopRun(run_id):
                self._stop_one(run_id)
            case StopExecuting():
                await self._stop_all()
            case _Beat():
                await self._beat()
            case _Sweep():
                await self._sweep()
            case _:
                return await super().on_receive(message)

    def _fill(self) -> None:
        while self._waiting and len(self._tasks) < self._limits.concurrency and not self._stopping:
            run_id = self._waiting.popleft()
            if run_id not in self._tasks:
                self._tasks[run_id] = self.spawn(self._execution.run(run_id), then=partial(_Ended, run_id))

    def _stop_one(self, run_id: int) -> None:
        if run_id in self._tasks:
            self._tasks[run_id].cancel()
        elif run_id in self._waiting:
            self._waiting.remove(run_id)

    async def _stop_all(self) -> None:
        self._stopping = True
        waiting, self._waiting = list(self._waiting), deque()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._end_queued(waiting)

    async def _end_queued(self, run_ids: list[int]) -> None:
        try:
            for run_id in run_ids:
                async with self._db.write() as tx:
                    await interrupted_runs.end_run(tx, run_id, PROCESS_STOPPED)
                self._feed.publish(run_id)
        except DatabaseUnavailable as error:
            log.warning("agent.stop_not_written", reason=str(error))

    async def _recover(self) -> None:
        me = Owner.parse(self._owner)
        assert me is not None, "a process knows its own name"
        try:
            async with self._db.write() as tx:
                ended = await interrupted_runs.recover_interrupted_agent_runs_on_startup(tx, me, is_alive)
                self._waiting.extend(await sessions.list_queued(tx, self._owner))
        except DatabaseUnavailable as error:
            log.warning("agent.recovery_failed", reason=str(error))  # the idle timeout ends them
            return
        if ended:
            log.warning("agent.runs_recovered", run_ids=ended)
        for run_id in ended:
            self._feed.publish(run_id)

    async def _beat(self) -> None:
        mine = [*self._tasks, *self._waiting]
        if not mine:
            return
        try:
            async with self._db.write() as tx:
                still = await sessions.beat(tx, self._owner, mine)
        except DatabaseUnavailable as error:
            log.warning("agent.heartbeat_failed", reason=str(error))
            return
        for run_id in set(mine) - still:
            self._stop_one(run_id)

    async def _sweep(self) -> None:
        try:
            async with self._db.write() as tx:
                ended = await interrupted_runs.end_idle_runs(tx, int(self._limits.idle_timeout_s * 1000))
        except DatabaseUnavailable as error:
            log.warning("agent.sweep_failed", reason=str(error))
            return
        for run_id in ended:
            log.warning("agent.run_idle", run_id=run_id)
            self._feed.publish(run_id)
