"""The built-in agent's part of the Backend, composed: models, brain, execution, and the two actors that execute runs.

Start: the manager of ordinary runs, which first ends what dead processes of this host left, then the coordinator that
resumes. Stop: `stop_executing` while everything else still works; then both actors in reverse.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pykka

from pagegate.actors.agents.background import AgentBackgroundRunManager, StopExecuting
from pagegate.actors.agents.brain import Answer, Asked, Brain, Tell
from pagegate.actors.agents.execution import Execution
from pagegate.actors.agents.external_tasks import BatchesMayBeReady, ExternalTasks, StopResuming
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.limits import RunLimits
from pagegate.actors.agents.models import Models
from pagegate.actors.kernel import ask
from pagegate.actors.systems.agent_options import AgentOptions
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects

_STOP_S = 15.0


class LateBrain:
    """The real brain, imported when a run first wants it: its libraries cost seconds and a hundred megabytes."""

    def __init__(self, make: Callable[[], Brain]) -> None:
        self._make, self._one = make, asyncio.Lock()
        self._brain: Brain | None = None

    async def answer(self, asked: Asked, tell: Tell) -> Answer:
        async with self._one:
            if self._brain is None:
                self._brain = await asyncio.to_thread(self._make)
        return await self._brain.answer(asked, tell)


class AgentSide:
    """`background` and `external` are the two actors; `models` is what the door checks credentials with."""

    def __init__(
        self,
        db: Database,
        objects: Objects,
        feed: RunFeed,
        owner: str,
        run_limits: RunLimits,
        options: AgentOptions,
        on_jobs: Callable[[], None],
        *,
        brain: Brain | None = None,
    ) -> None:
        self.models = Models(db, options.secrets(), base_urls=options.base_urls, stream_s=options.model_idle_s)

        def make() -> Brain:
            from pagegate.actors.agents.pydantic_brain import PydanticBrain

            return PydanticBrain(
                db, objects, self.models, model_idle_s=options.model_idle_s, tools_idle_s=options.tools_idle_s
            )

        def submitted() -> None:
            on_jobs()
            if self.external.is_alive():
                self.external.tell(BatchesMayBeReady())

        limits = options.limits
        execution = Execution(db, brain or LateBrain(make), feed, run_limits, limits, owner, submitted)
        self.background: pykka.ActorRef[Any] = AgentBackgroundRunManager.start(db, execution, feed, owner, limits)
        self.external: pykka.ActorRef[Any] = ExternalTasks.start(
            db, owner, feed, execution, resumes_max=limits.concurrency, lease_s=limits.resume_lease_s
        )

    async def stop_executing(self) -> None:
        """End ordinary runs, release resumed ones, begin nothing more (A7). Bounded; a dead actor is fine."""
        for actor, message in ((self.background, StopExecuting()), (self.external, StopResuming())):
            with contextlib.suppress(TimeoutError, pykka.ActorDeadError):
                await ask(actor, message, timeout_s=_STOP_S)
