"""Who uses the service: agents that submit steps, and people who cancel, revoke, and change things meanwhile.

An agent sends its request until it has an answer, under one idempotency key: to any Backend, sometimes to two at once,
and sometimes it does not wait for the answer. What it was answered once must be answered always.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pykka
from sqlalchemy import select, update

from pagegate.actors.agents.runs import CancelRun, StartApiRun
from pagegate.actors.agents.tools import parse_tool_call
from pagegate.actors.kernel import ask
from pagegate.actors.queues.control import CancelOneJob, PauseLane, ResumeLane, RetryFailedJob
from pagegate.storage import builds, components, jobs, lanes, pages, projects, runs, schema, users, workspaces
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.external import ResultDelivered
from pagegate.storage.pages import NewVersion
from pagegate.storage.retries import JobAlreadyRetried, JobNotFailed
from tests.simulation.backend import Backend
from tests.simulation.makers import calls_of
from tests.simulation.moves import CALL_JOBS, RATIO_JOBS, Violation
from tests.simulation.sources import NATURES, Nature, mark_of, source_of

if TYPE_CHECKING:
    from tests.simulation.world import World

_ANSWER_TIMEOUT_S = 4.0


@dataclass
class Place:
    """A workspace with its project and the user who writes there."""

    workspace_id: int
    project_id: int
    user_id: int


@dataclass
class People:
    """All of them. `runs` is what each idempotency key was answered."""

    world: "World"
    places: list[Place] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    _marks: int = 0
    _calls: int = 0

    async def settle_in(self, how_many: int) -> None:
        async with self.world.wire.write() as tx:
            boss = await users.create_user(tx, "boss", is_admin=True)
            for number in range(how_many):
                user_id = await users.create_user(tx, f"user{number}")
                workspace_id = await workspaces.create_workspace(tx, f"w{number}", boss)
                await workspaces.put_member(tx, workspace_id, user_id, "editor")
                project_id = await projects.create_project(
                    tx, workspace_id, f"p{number}", canvas_width_px=1280, canvas_height_px=720
                )
                self.places.append(Place(workspace_id, project_id, user_id))
                for code in ("home", "about"):
                    await pages.insert_page_with_first_version(
                        tx, project_id, code=code, framework="vue", version=self._first_version(boss)
                    )

    def _first_version(self, boss: int, nature: Nature = "good") -> NewVersion:
        self._marks += 1
        return NewVersion(
            source=source_of(nature, self._marks),
            title="Page",
            speaker_notes="",
            component_pins={},
            status="passed",
            verdict=None,
            picture_key=None,
            job_id=None,
            created_by=boss,
        )

    # -- agents ---------------------------------------------------------------------------------------------------

    async def submit(self, key: str, place: Place) -> None:
        """One step, asked for until it is answered."""
        asked = await self._request(key, place)
        chance = self.world.loop.chance
        if chance.random() < 0.2:
            await asyncio.gather(self._until_answered(asked), self._until_answered(asked))
        else:
            await self._until_answered(asked)
        if chance.random() < 0.15:
            await self._until_answered(asked)  # it has forgotten that it was answered
        if chance.random() < self.world.climate.cancels:
            await asyncio.sleep(chance.uniform(0, 8))
            await self._cancel(self.runs[key], place.user_id)

    async def _until_answered(self, asked: StartApiRun) -> None:
        chance, key = self.world.loop.chance, asked.idempotency_key
        assert key is not None
        while True:
            backend = chance.choice(self.world.backends)
            try:
                answer = await ask(backend.actors["runs"], asked, chance.choice([0.01, *[_ANSWER_TIMEOUT_S] * 4]))
            except runs.JobQueueFull:
                if key in self.runs and self.runs[key] not in self.world.books.pruned_runs:
                    raise Violation(f"the key {key} was answered run {self.runs[key]}, and then refused") from None
                await asyncio.sleep(chance.uniform(0.1, 2))
                continue
            except (TimeoutError, DatabaseUnavailable, pykka.ActorDeadError):
                await asyncio.sleep(chance.uniform(0.1, 2))
                continue
            self.world.note("agent", "answered", key=key, run=answer.run_id, created=answer.created)
            before = self.runs.setdefault(key, answer.run_id)
            if before in self.world.books.pruned_runs:  # nobody can know any more that it was answered
                self.runs[key] = answer.run_id
            elif before != answer.run_id:
                raise Violation(f"the key {key} was answered run {before}, and then run {answer.run_id}")
            return

    async def cancel_one_of(self, backend: Backend, *, through_another: bool = False) -> None:
        """Cancel a run that this very process works for; it hears of it, or another one does."""
        for job in self.world.books.rows[jobs.PAGE_MUTATION].values():
            if job.status == "running" and job.worker_id == backend.owner:
                await self._cancel(job.run_id, job.user_id, None if through_another else backend)
                return

    async def _cancel(self, run_id: int, user_id: int, backend: Backend | None = None) -> None:
        backend = backend or self.world.loop.chance.choice(self.world.backends)
        try:
            state = await ask(backend.actors["runs"], CancelRun(run_id, user_id), _ANSWER_TIMEOUT_S)
        except (TimeoutError, DatabaseUnavailable, pykka.ActorDeadError, runs.RunNotFound):
            return
        self.world.note("agent", "cancelled", run=run_id, state=state)
        if state not in {"succeeded", "failed", "cancelled"}:
            raise Violation(f"run {run_id} was cancelled, and is {state}")

    async def _request(self, key: str, place: Place) -> StartApiRun:
        """Pages to make and pages to edit, some of them twice in one step."""
        chance = self.world.loop.chance
        async with self.world.wire.read() as tx:
            rows = await tx.execute(
                select(schema.pages.c.code, schema.page_versions.c.number, schema.page_versions.c.source)
                .join(schema.page_versions, schema.page_versions.c.page_id == schema.pages.c.id)
                .where(
                    schema.pages.c.project_id == place.project_id,
                    schema.page_versions.c.number == schema.pages.c.current_version_number,
                )
            )
            known = {row.code: (row.number, mark_of(row.source)) for row in rows}
        calls: list[Any] = []
        climate = self.world.climate
        if climate.makes and chance.random() < 0.8:
            calls = await calls_of(self.world, place, lambda: mark_of(self._source()), self._call)
            return StartApiRun(place.user_id, place.project_id, tuple(calls), key, chance.random() < 0.25)
        edits, names = {"edits": (0.95, 0.4), "names": (0.1, 0.5)}.get(climate.asked, (0.5, 0.4))
        for _ in range(chance.choice(climate.calls)):
            if known and chance.random() < edits:
                code = chance.choice(sorted(known))
                number, mark = known[code]
                edit = {"search": mark, "replace": mark_of(self._source())}
                calls.append(self._call("apply_page_edits", page=code, base_version=number, edits=[edit]))
                known[code] = (number + 1, edit["replace"])
            else:
                named = {"code": chance.choice(["page", "page-2", "page-3"])} if chance.random() < names else {}
                calls.append(self._call("create_project_page", title="Page", source=self._source(), **named))
        skip = chance.random() < 0.25
        return StartApiRun(place.user_id, place.project_id, tuple(calls), key, skip)

    def _call(self, tool: str, **arguments: Any) -> Any:
        self._calls += 1
        return parse_tool_call(f"call-{self._calls}", tool, arguments)

    def _source(self) -> str:
        self._marks += 1
        return source_of(self.world.loop.chance.choice(NATURES), self._marks)

    # -- people ---------------------------------------------------------------------------------------------------

    async def interfere(self) -> None:
        """One thing that somebody does while jobs run."""
        chance, place = self.world.loop.chance, self.world.loop.chance.choice(self.places)
        match chance.choice(["revoke", "degrade", "disable", "restore", "restore", "component", "delete", "return"]):
            case "revoke":
                await self._write("membership revoked", place, workspaces.remove_member)
            case "degrade":
                await self._write("made a viewer", place, workspaces.put_member, "viewer")
            case "disable":
                await self._disable(place, True)
            case "restore":
                await self.restore(place)
            case "component":
                source = f"<template>{chance.random()}</template>"
                if self.world.climate.makes:  # there a component says what it is, as pages do
                    source = self._first_version(1).source
                async with self.world.wire.write() as tx:
                    await components.put_component(tx, place.project_id, "Tile.vue", source, place.user_id)
            case "delete":
                await self._pages(place, pages.delete_page, "deleted")
            case "return":
                await self._pages(place, pages.bring_back_page, "brought back")

    async def come_and_go(self) -> None:
        """A page is deleted, or brought back."""
        place = self.world.loop.chance.choice(self.places)
        if self.world.loop.chance.random() < 0.5:
            await self._pages(place, pages.delete_page, "deleted")
        else:
            await self._pages(place, pages.bring_back_page, "brought back")

    async def edit(self, *, badly: bool = False) -> None:
        """Somebody saves a page by hand, without any job; `badly`: it may be one that no build can compile."""
        place = self.world.loop.chance.choice(self.places)
        async with self.world.wire.write() as tx:
            entries = await pages.list_pages(tx, place.project_id)
            if not entries:
                return
            page = self.world.loop.chance.choice(entries).page
            nature = self.world.loop.chance.choice(NATURES) if badly else "good"
            number = await pages.add_page_version(tx, page.id, page.number, self._first_version(1, nature))
        self.world.note("people", "saved a page by hand", page=page.id, version=number)

    async def operate(self, lane: str = jobs.PAGE_MUTATION) -> None:
        """An operator's hand on a lane or on one of its jobs (Q10, Q11)."""
        chance, world = self.world.loop.chance, self.world
        known = sorted(world.books.rows[lane])
        asked: Any = chance.choice([PauseLane(lane, 1), ResumeLane(lane, 1)])
        if known and chance.random() < 0.7:
            failed = [number for number in known if world.books.rows[lane][number].status == "failed"]
            kind = chance.choice([RetryFailedJob, RetryFailedJob, CancelOneJob])
            asked = kind(lane, chance.choice(failed or known), 1)
        backend = chance.choice(world.backends)
        try:
            answer = await ask(backend.actors["control"], asked, _ANSWER_TIMEOUT_S)
        except (TimeoutError, DatabaseUnavailable, pykka.ActorDeadError):
            return
        except (JobNotFailed, JobAlreadyRetried, ResultDelivered, runs.JobQueueFull, jobs.JobNotFound) as refusal:
            answer = type(refusal).__name__
        world.note("operator", type(asked).__name__, job=getattr(asked, "job_id", "-"), answer=answer)

    async def restore(self, place: Place) -> None:
        await self._disable(place, False)
        await self._write("made an editor", place, workspaces.put_member, "editor")

    async def put_right(self) -> None:
        """Everybody may write again, and the lane is open."""
        for place in self.places:
            await self.restore(place)
        async with self.world.wire.write() as tx:
            for lane in (jobs.PAGE_MUTATION, *self._other_lanes()):
                await lanes.resume_lane(tx, lane)

    def _other_lanes(self) -> list[str]:
        """Lanes that only some worlds have."""
        return ([builds.PROJECT_BUILD] if self.world.builders else []) + (
            [*CALL_JOBS[1:], RATIO_JOBS] if self.world.climate.makes else []
        )

    async def _write(self, what: str, place: Place, statement: Any, *more: Any) -> None:
        async with self.world.wire.write() as tx:
            await statement(tx, place.workspace_id, place.user_id, *more)
        self.world.note("people", what, user=place.user_id)

    async def _disable(self, place: Place, disabled: bool) -> None:
        async with self.world.wire.write() as tx:
            one = update(schema.users).where(schema.users.c.id == place.user_id)
            await tx.execute(one.values(disabled_at_ms=tx.now if disabled else None))
        self.world.note("people", "disabled" if disabled else "enabled", user=place.user_id)

    async def _pages(self, place: Place, statement: Any, what: str) -> None:
        async with self.world.wire.write() as tx:
            of_project = select(schema.pages.c.id).where(schema.pages.c.project_id == place.project_id)
            ids = list((await tx.execute(of_project.order_by(schema.pages.c.id))).scalars())
            if ids:
                page_id = self.world.loop.chance.choice(ids)
                await statement(tx, page_id)
                self.world.note("people", f"page {what}", page=page_id)
