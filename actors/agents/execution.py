"""One turn of a run of the built-in agent: from its history to the next thing that is committed (A1, A4, A7).

Owns the order: read what the model must see, ask, commit what came of it in one transaction: messages and next step, or
messages and end. An ordinary turn writes for as long as the run is its process's; a resumed one under the lease of its
batch, whose generation is in every write. Holds no transaction while the model thinks.

Survives: a stop at any await (an ordinary run ends with AI_RUN_PROCESS_STOPPED, a resumed one gives its batch back), a
kill (nothing is half written; the batch's lease ends, and another coordinator asks the model again), an answer that
comes after the lease was lost (its first write finds no row).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from pagegate.actors.agents import history
from pagegate.actors.agents.brain import Answer, Asked, Brain, DeferredCall, RunEnds
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.limits import AgentLimits, RunLimits
from pagegate.actors.agents.reading import told_to_model
from pagegate.actors.agents.submissions import prepare_calls, refusal
from pagegate.actors.agents.tools import (
    IMAGE_INFRASTRUCTURE,
    AnyToolCall,
    ToolCallsRefused,
    parse_tool_call,
    refuse_step,
)
from pagegate.storage import external, interrupted_runs, lease, runs, sessions
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.external import ClaimedBatch
from pagegate.storage.lease import LeaseLost
from pagegate.storage.runs import CallSubmission, JobQueueFull, StepSubmission, ToolCall
from pagegate.storage.sessions import StoredMessage, Turn

log = structlog.get_logger()

_AGAIN_S = 0.5
_PERSIST_S = 60.0  # how long a commit is tried while the database is away
_MARGIN_S = 2.0  # a resume ends itself so long before its lease does

PROCESS_STOPPED = {
    "code": "AI_RUN_PROCESS_STOPPED",
    "message": "The process that executed the run was stopped.",
    "hint": "Retry the run in its session; you are told first what it had already written.",
}
_BUDGET_NEXT = (
    "The repair budget of this run is used up: nothing more is checked. Do not submit anything; report what is saved "
    "and what is not."
)


@dataclass(frozen=True)
class _Question:
    asked: Asked
    workspace_id: int
    skip_visual_verification: bool


class Execution:
    """`owner` names this process. `on_submitted` is called when a step's jobs and batch are durable: a hint."""

    def __init__(
        self,
        db: Database,
        brain: Brain,
        feed: RunFeed,
        run_limits: RunLimits,
        limits: AgentLimits,
        owner: str,
        on_submitted: Callable[[], None],
    ) -> None:
        self._db, self._brain, self._feed, self._owner = db, brain, feed, owner
        self._run_limits, self._limits, self._on_submitted = run_limits, limits, on_submitted

    async def run(self, run_id: int) -> None:
        """The first turn of a queued run. Raises nothing but `CancelledError`."""
        turn: Turn | None = None

        async def begin(tx: Tx) -> None:
            nonlocal turn
            turn = await sessions.begin_turn(tx, run_id, self._owner)

        await self._persist(begin)
        if turn is None:
            return
        self._feed.publish(run_id)
        await self._take(turn, self._turn(turn, None))

    async def resume(self, batch: ClaimedBatch, turn: Turn) -> None:
        """The next turn of a run whose batch was claimed. Raises nothing but `CancelledError`."""
        self._feed.publish(turn.run_id)
        await self._take(turn, self._under_lease(turn, self._turn(turn, batch)))

    async def _take(self, turn: Turn, work: Awaitable[None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            await asyncio.shield(self._stopped(turn))
            raise
        except LeaseLost:
            log.warning("agent.turn_lost", run_id=turn.run_id, resumed=turn.lease is not None)
        except RunEnds as end:
            await self._fail(turn, end.error)
        except DatabaseUnavailable as error:
            # An ordinary run ends by the idle timeout then, a resumed one when its lease does.
            log.warning("agent.turn_not_written", run_id=turn.run_id, reason=str(error))
        except Exception:
            log.exception("agent.turn_failed", run_id=turn.run_id)
            await self._fail(turn, RunEnds("AI_RUN_FAILED", "Something went wrong here.", "Retry the run.").error)
        self._feed.publish(turn.run_id)

    async def _turn(self, turn: Turn, batch: ClaimedBatch | None) -> None:
        async with self._db.read() as tx:
            question = await self._question(tx, turn, batch)

        async def tell(kind: str, data: Mapping[str, Any]) -> None:
            await self._tell(turn, kind, data)

        answer = await self._brain.answer(question.asked, tell)
        if answer.calls:
            await self._submit(turn, question, answer)
        else:
            await self._finish(turn, answer)

    # --- what the model is asked ------------------------------------------------------------------------------------

    async def _question(self, tx: Tx, turn: Turn, batch: ClaimedBatch | None) -> _Question:
        run = await runs.get_run(tx, turn.run_id)
        prompt = await sessions.find_prompt(tx, turn.run_id)
        assert prompt is not None, "a turn is taken for a run with a prompt"
        stored = await sessions.list_messages(tx, turn.session_id)
        own = [one.message for one in stored if one.run_id == turn.run_id]
        asked = Asked(
            run_id=turn.run_id,
            project_id=run.project_id,
            user_id=run.user_id,
            model=prompt.model,
            history=[*await _earlier(tx, stored, turn.run_id), *own],
            results={} if batch is None else await self._results(tx, batch, own),
            requests_left=self._limits.requests_max - history.count_answers(own),
            focus=prompt.focus,
        )
        return _Question(asked, run.workspace_id, run.skip_visual_verification)

    async def _results(self, tx: Tx, batch: ClaimedBatch, own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One result for every call that waits, by the model's own ids (A4)."""
        pending = history.pending_calls(own)
        if not pending:
            hint = "Begin a new session; what this one had written stays."
            raise RunEnds("AI_HISTORY_UNREADABLE", "The history of this run has no call that waits.", hint)
        ended = await external.list_results(tx, batch.batch_id)
        calls = await runs.list_tool_calls(tx, batch.run_id)
        about = {call.call_id: dict(call.about) for call in calls}
        told = {one.call_id: about.get(one.call_id, {}) | told_to_model(one.result, one.state) for one in ended}
        if _refusals(calls) >= self._limits.repair_budget:
            told = {call_id: one if one["saved"] else {**one, "next": _BUDGET_NEXT} for call_id, one in told.items()}
        found = history.results_by_model_id(pending, told, batch.run_step)
        return {call["tool_call_id"]: found.get(call["tool_call_id"], history.STOPPED) for call in pending}

    # --- what comes of the answer -----------------------------------------------------------------------------------

    async def _submit(self, turn: Turn, question: _Question, answer: Answer) -> None:
        """Commit the answer with its step. A full queue is waited for, holding nothing but the turn (Q9)."""
        deadline_s = asyncio.get_running_loop().time() + self._limits.queue_wait_s
        while True:
            try:
                await self._persist(lambda tx: self._write_step(tx, turn, question, answer))
                break
            except JobQueueFull as full:
                if asyncio.get_running_loop().time() > deadline_s:
                    hint = "Retry the run when fewer pages or pictures are waiting."
                    raise RunEnds(full.code, str(full), hint) from None
                await asyncio.sleep(_AGAIN_S)
                await self._persist(lambda tx: sessions.require_turn(tx, turn))  # the run may be over meanwhile
        self._on_submitted()

    async def _write_step(self, tx: Tx, turn: Turn, question: _Question, answer: Answer) -> None:
        await tx.serialize(runs.SUBMIT)  # no lock is taken before it: whoever retries a job takes it first too
        await sessions.close_turn(tx, turn)
        before = await runs.list_tool_calls(tx, turn.run_id)
        if _refusals(before) >= self._limits.repair_budget:
            hint = "Look at the last findings; retry the run with other words, or repair the page by hand."
            message = f"{_refusals(before)} writes of this run were refused, and it goes on submitting."
            raise RunEnds("AI_RUN_REPAIR_BUDGET_EXHAUSTED", message, hint)
        run_step = (await runs.get_run(tx, turn.run_id)).run_step + 1
        calls = await self._calls(tx, question, answer.calls, run_step, {call.call_id for call in before})
        await self._keep(tx, turn, answer)
        await runs.submit_step(
            tx,
            StepSubmission(
                workspace_id=question.workspace_id,
                project_id=question.asked.project_id,
                user_id=question.asked.user_id,
                calls=calls,
                source="agent",
                run_id=turn.run_id,
                skip_visual_verification=question.skip_visual_verification,
                job_deadline_ms=int(self._run_limits.job_deadline_s * 1000),
                active_jobs_max=self._run_limits.active_jobs_max,
                active_jobs_max_of=self._run_limits.active_jobs_max_of,
                batch_size_max=len(calls),  # too many are told call by call, in `_calls`
            ),
        )

    async def _calls(
        self, tx: Tx, question: _Question, made: Sequence[DeferredCall], run_step: int, taken: set[str]
    ) -> list[CallSubmission]:
        """The calls as rows, in order; those that cannot be accepted as refusals, so that the model hears why."""
        found: dict[str, CallSubmission] = {}
        parsed: list[AnyToolCall] = []
        order: list[str] = []
        for call in made:
            call_id = history.stored_call_id(call.call_id, run_step, taken)
            order.append(call_id)
            try:
                one = parse_tool_call(call_id, call.tool, dict(call.arguments))
                self._refuse_alone(one, len(made))
                parsed.append(one)
            except ToolCallsRefused as error:
                told = refusal(error.code, error.message, error.hint, {})
                found[call_id] = CallSubmission(call_id, call.tool, call.arguments, refused=told)
            except ValidationError:
                told = refusal("TOOL_ARGUMENTS_INVALID", "The arguments do not fit the tool.", "Correct them.", {})
                found[call_id] = CallSubmission(call_id, call.tool, call.arguments, refused=told)
        found |= {one.call_id: one for one in await prepare_calls(tx, question.asked.project_id, parsed)}
        return [found[call_id] for call_id in order]

    def _refuse_alone(self, call: AnyToolCall, calls: int) -> None:
        if calls > self._run_limits.batch_size_max:
            message = f"{calls} calls in one step, {self._run_limits.batch_size_max} are allowed."
            raise ToolCallsRefused("AI_PAGE_MUTATION_BATCH_TOO_LARGE", message, "Send fewer in one step.")
        refuse_step([call], batch_size_max=1, source_bytes_max=self._run_limits.source_bytes_max)

    async def _finish(self, turn: Turn, answer: Answer) -> None:
        async def write(tx: Tx) -> None:
            await sessions.close_turn(tx, turn)
            await self._keep(tx, turn, answer)
            calls = await runs.list_tool_calls(tx, turn.run_id)
            result = {"text": answer.text, **summary_of_calls(calls)}
            if await runs.finish_run(tx, turn.run_id, "finish", result=result):
                await runs.append_event(tx, turn.run_id, "run.finished", result)

        await self._persist(write)
        log.info("agent.run_finished", run_id=turn.run_id)

    async def _keep(self, tx: Tx, turn: Turn, answer: Answer) -> None:
        await sessions.append_messages(tx, turn.session_id, turn.run_id, history.without_pictures(answer.messages))

    async def _fail(self, turn: Turn, error: Mapping[str, Any]) -> None:
        async def write(tx: Tx) -> None:
            await sessions.close_turn(tx, turn)
            await interrupted_runs.end_run(tx, turn.run_id, error)

        try:
            await self._persist(write)
        except (LeaseLost, DatabaseUnavailable) as lost:
            log.warning("agent.end_not_written", run_id=turn.run_id, code=error["code"], reason=str(lost))
            return
        log.info("agent.run_failed", run_id=turn.run_id, code=error["code"])

    async def _stopped(self, turn: Turn) -> None:
        """This process stops, or the run was stopped; then there is nothing left to write (A7)."""
        try:
            async with self._db.write() as tx:
                if turn.lease is None:
                    await sessions.close_turn(tx, turn)
                    await interrupted_runs.end_run(tx, turn.run_id, PROCESS_STOPPED)
                else:
                    await external.release_batch(tx, turn.lease)
                    await sessions.rest_turn(tx, turn)
        except LeaseLost:
            return
        except DatabaseUnavailable as error:
            log.warning("agent.stop_not_written", run_id=turn.run_id, reason=str(error))
            return
        log.info("agent.stopped", run_id=turn.run_id, released=turn.lease is not None)
        self._feed.publish(turn.run_id)

    # --- under way --------------------------------------------------------------------------------------------------

    async def _tell(self, turn: Turn, kind: str, data: Mapping[str, Any]) -> None:
        """An event under the turn's fence; raises `LeaseLost`. One that cannot be written now is not worth an end."""
        try:
            async with self._db.write() as tx:
                await sessions.require_turn(tx, turn)
                await runs.append_event(tx, turn.run_id, kind, data)
        except DatabaseUnavailable as error:
            log.warning("agent.event_not_written", run_id=turn.run_id, kind=kind, reason=str(error))
            return
        self._feed.publish(turn.run_id)

    async def _under_lease(self, turn: Turn, work: Awaitable[None]) -> None:
        """Do the work while the batch's lease is renewed; it is ended before the lease could be (Q4)."""
        assert turn.lease is not None
        loop, ttl_s = asyncio.get_running_loop(), self._limits.resume_lease_s
        task = asyncio.ensure_future(work)
        ends_s = loop.time() + ttl_s - _MARGIN_S
        try:
            while not (await asyncio.wait({task}, timeout=ttl_s / 4))[0]:
                sent_s = loop.time()
                try:
                    async with self._db.write() as tx:
                        await lease.renew(tx, turn.lease, int(ttl_s * 1000))
                    ends_s = sent_s + ttl_s - _MARGIN_S
                except DatabaseUnavailable:
                    if loop.time() + ttl_s / 4 > ends_s:
                        raise LeaseLost(f"the lease of run {turn.run_id} could not be renewed") from None
            await task
        finally:
            if not task.done():
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # heard of, whatever it was

    async def _persist(self, write: Callable[[Tx], Awaitable[None]]) -> None:
        """One transaction, tried again for a while when the database is away; its fence forbids a second commit."""
        until_s = asyncio.get_running_loop().time() + _PERSIST_S
        while True:
            try:
                async with self._db.write() as tx:
                    await write(tx)
                return
            except DatabaseUnavailable:
                if asyncio.get_running_loop().time() > until_s:
                    raise
                await asyncio.sleep(_AGAIN_S)


def summary_of_calls(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """What a run has come to: its calls' ends, and what it saved, everything with its newest version. Pure."""
    ends = [{"call_id": call.call_id, "state": call.status} for call in calls]
    return {
        "calls": ends,
        "pages": _saved(calls, "page_code", "page"),
        "components": _saved(calls, "component_name", "component"),
        "assets": _saved(calls, "asset_name", "asset"),
    }


def _saved(calls: Sequence[ToolCall], subject: str, noun: str) -> list[dict[str, Any]]:
    """What of this kind the calls saved, in the order of the first save."""
    saved = {}
    for call in calls:
        result = call.result or {}
        if call.status == "succeeded" and result.get(subject):
            saved[result[subject]] = {noun: result[subject], "version": result.get("version")}
    return list(saved.values())


def _refusals(calls: Sequence[ToolCall]) -> int:
    """What counts against the repair budget: writes that were refused for what they were (A11)."""
    infrastructure = ("RENDER_", "RUNTIME_", "JOB_", "DATABASE_", "OBJECT_STORE_", *IMAGE_INFRASTRUCTURE)
    refused = [call for call in calls if call.status in {"failed", "refused"}]
    return sum(not str((call.result or {}).get("code", "")).startswith(infrastructure) for call in refused)


async def _earlier(tx: Tx, stored: Sequence[StoredMessage], run_id: int) -> list[Mapping[str, Any]]:
    """The messages of the session's earlier runs, with an answer for every call that was left open."""
    found: list[Mapping[str, Any]] = []
    for earlier_id in dict.fromkeys(one.run_id for one in stored if one.run_id < run_id):
        messages = [one.message for one in stored if one.run_id == earlier_id]
        ends: dict[str, Any] = {}
        if history.pending_calls(messages):
            calls = await runs.list_tool_calls(tx, earlier_id)
            ends = {call.call_id: told_to_model(call.result, call.status) for call in calls}
        found += history.completed(messages, ends)
    return found
