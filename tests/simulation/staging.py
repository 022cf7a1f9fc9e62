"""What is laid around the code while a world is played: ears, snares, and names that a seed repeats.

Owns nothing; each is a context manager for as long as the world lives.
"""

import asyncio
import logging
import random
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest import mock

import structlog

from pagegate.actors.jobs import page_plan
from pagegate.storage import builds, external, images, jobs, lease, renders
from pagegate.storage.jobs import Ending
from pagegate.storage.lease import Lease
from tests.simulation.database import session_of
from tests.simulation.moves import Violation
from tests.simulation.patching import everywhere
from tests.simulation.virtual_loop import LIFE

if TYPE_CHECKING:
    from tests.simulation.world import World

# Everything that a process does under a lease; whoever calls one of these says that it holds it.
_UNDER_A_LEASE = {
    lease: ("renew", "require_held"),
    jobs: ("retry_job", "release_job", "change_candidate_code"),
    renders: ("enqueue_request", "finish_attempt", "fail_attempt", "return_busy"),
    external: ("finish_batch", "release_batch"),
    images: ("note_sent", "note_nothing_made"),
    builds: ("renew_build", "promote", "fail_build", "end_overdue"),
}
_SNARED = {"jobs": jobs, "renders": renders, "page_plan": page_plan}
_NOT_TOLD = {"event", "log_level", "artifact_id", "level", "exc_info", "owner"}


@contextmanager
def presenting() -> Iterator[None]:
    """Let the books see under which lease a process acts, whatever the statement then makes of it."""

    def watched(function: Any) -> Any:
        @wraps(function)
        async def call(tx: Any, held: Lease, *args: Any, **kwargs: Any) -> Any:
            session = session_of(tx)
            if session.server.witness is not None:
                session.server.witness.presented(session, held)
            return await function(tx, held, *args, **kwargs)

        return call

    def renewing(function: Any) -> Any:
        """What is lost among many leases is left out; only who is answered acts under its lease."""

        @wraps(function)
        async def call(tx: Any, leases: Sequence[Lease], *args: Any, **kwargs: Any) -> Any:
            session = session_of(tx)
            known = len(session.stale)
            if session.server.witness is not None:
                for held in leases:
                    session.server.witness.presented(session, held)
            renewed = await function(tx, leases, *args, **kwargs)
            believed = [held for held in session.stale[known:] if held.id in renewed and renewed[held.id].is_of(held)]
            session.stale[known:] = believed
            return renewed

        return call

    def finishing(function: Any) -> Any:
        @wraps(function)
        async def call(tx: Any, endings: Sequence[Ending], **how: Any) -> Any:
            session = session_of(tx)
            if session.server.witness is not None:
                for ending in endings:
                    session.server.witness.presented(session, ending.lease)
            return await function(tx, endings, **how)

        return call

    with ExitStack() as patched:
        for module, names in _UNDER_A_LEASE.items():
            for name in names:
                patched.enter_context(everywhere(getattr(module, name), watched(getattr(module, name))))
        patched.enter_context(everywhere(jobs.renew_jobs, renewing(jobs.renew_jobs)))
        patched.enter_context(everywhere(jobs.finish_jobs, finishing(jobs.finish_jobs)))
        yield


@contextmanager
def snares(world: "World") -> Iterator[None]:
    """After these functions of its climate a process may fall asleep, when they found something."""

    def snared(function: Any, likelihood: float) -> Any:
        @wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            found = await function(*args, **kwargs)
            if found and world.loop.chance.random() < likelihood and world.fall_asleep():
                world.note(LIFE.get().name, "sleeps after", function=function.__name__)  # type: ignore[union-attr]
                await asyncio.sleep(0)
            return found

        return call

    with ExitStack() as patched:
        for where, likelihood in world.climate.snares.items():
            module, name = where.split(".")
            function = getattr(_SNARED[module], name)
            patched.enter_context(everywhere(function, snared(function, likelihood)))
        yield


@contextmanager
def chance_of(seed: int) -> Iterator[None]:
    """Names that code makes up are the same ones in every run of a seed."""
    names = random.Random(seed)
    made_up = lambda: uuid.UUID(int=names.getrandbits(128), version=4)  # noqa: E731
    token = lambda _=None: f"{names.getrandbits(96):024x}"  # noqa: E731
    with mock.patch.object(uuid, "uuid4", made_up), mock.patch("secrets.token_urlsafe", token):
        yield


@contextmanager
def listening(world: "World") -> Iterator[None]:
    """What the actors log is told in the trace; a crash that nobody wanted is a violation."""

    def hear(_: Any, level: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        life, error = LIFE.get(), said.get("exc_info")
        error = sys.exc_info()[1] if error is True else error
        about = {name: value for name, value in said.items() if name not in _NOT_TOLD and not name.endswith("ms")}
        world.note(life.name if life else "-", said["event"], **about)
        if said["event"] in {"actor.crashed", "actor.child_failed", "job.rescue_failed", "render.dispatch.crashed"}:
            wanted = isinstance(error, NotImplementedError | AttributeError) and said["event"] == "actor.crashed"
            if not wanted:
                world.books.broken(Violation(f"{said['event']}: {about} {error!r}"))
        raise structlog.DropEvent

    structlog.configure(processors=[hear], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        yield
    finally:
        structlog.reset_defaults()
