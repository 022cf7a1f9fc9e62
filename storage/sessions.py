"""Sessions of the built-in agent: its runs, what they were asked for, and the history they share (A1, A7).

Owns the statements on `ai_agent_sessions`, `ai_agent_prompts` and `ai_agent_messages`, and the fence of an ordinary
run: a run is written to by the process that its row names (`process_owner`), and a resumed one under the lease of its
batch besides (A4). Messages are opaque here. A session has one live run at a time, so its history is one line.

Survives a process that dies anywhere: the prompt is a message from the start, and a run is rows and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, func, select, update

from pagegate.storage import external, lease, schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, LeaseLost
from pagegate.storage.run_events import append_event
from pagegate.storage.steps import IdempotencyKeyReused, find_run_by_key, insert_run
from pagegate.storage.transitions import RUN

_runs = schema.ai_agent_runs
_sessions = schema.ai_agent_sessions
_prompts = schema.ai_agent_prompts
_messages = schema.ai_agent_messages


class SessionNotFound(LookupError):
    """There is no such session."""


class SessionBusy(Exception):
    """AI_SESSION_BUSY: another run of the session is live; its history would have two ends."""


@dataclass(frozen=True)
class AgentRun:
    """What a person asks for. `session_id` None makes a session; `owner` is the process that will execute it.

    `first_message` is the prompt as the history keeps it. `model` says which model, never its key.
    """

    workspace_id: int
    project_id: int
    user_id: int
    prompt: str
    first_message: Mapping[str, Any]
    model: Mapping[str, Any]
    owner: str
    session_id: int | None = None
    focus: Mapping[str, Any] | None = None
    retry_of: int | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    skip_visual_verification: bool = False


@dataclass(frozen=True)
class StartedRun:
    run_id: int
    session_id: int
    created: bool


@dataclass(frozen=True)
class Turn:
    """The right to write for a run: its process, and the lease of the batch that is being resumed, if one is (A4)."""

    run_id: int
    session_id: int
    owner: str
    lease: Lease | None = None


@dataclass(frozen=True)
class StoredMessage:
    run_id: int
    position: int
    message: Any


async def start_agent_run(tx: Tx, asked: AgentRun) -> StartedRun:
    """Bring a run into being, queued for its process; with the prompt as its first message, and its first event.

    Raises `SessionNotFound`, `SessionBusy`, `IdempotencyKeyReused`. A key seen before answers the run it made.
    """
    if asked.idempotency_key is not None:
        earlier = await find_run_by_key(tx, asked.user_id, asked.idempotency_key)
        if earlier is not None:
            return await _same_again(tx, earlier, asked)
    session_id = asked.session_id or await _create_session(tx, asked)
    await _lock_free_session(tx, asked, session_id)
    run_id = await insert_run(
        tx,
        workspace_id=asked.workspace_id,
        project_id=asked.project_id,
        user_id=asked.user_id,
        source="agent",
        idempotency_key=asked.idempotency_key,
        request_digest=asked.request_digest,
        skip_visual_verification=asked.skip_visual_verification,
        process_owner=asked.owner,
    )
    if run_id is None:  # the same key, at the same moment, through another door
        raise IdempotencyKeyReused("the key has just made another run; ask again for it")
    session = (await tx.execute(select(_sessions.c.focus).where(_sessions.c.id == session_id))).one()
    focus = asked.focus if asked.focus is not None else session.focus
    await tx.execute(
        _prompts.insert().values(
            run_id=run_id,
            session_id=session_id,
            prompt=asked.prompt,
            model=asked.model,
            focus=focus,
            retry_of=asked.retry_of,
            heartbeat_at=tx.now,
        )
    )
    changed = update(_sessions).where(_sessions.c.id == session_id)
    await tx.execute(changed.values(focus=focus, updated_at_ms=tx.now))
    await append_messages(tx, session_id, run_id, [asked.first_message])
    about = {"session_id": session_id, "model": dict(asked.model), "retry_of": asked.retry_of}
    await append_event(tx, run_id, "run.queued", about)
    return StartedRun(run_id, session_id, created=True)


async def find_session(tx: Tx, session_id: int) -> Row[Any] | None:
    return (await tx.execute(select(_sessions).where(_sessions.c.id == session_id))).first()


async def get_session(tx: Tx, session_id: int) -> Row[Any]:
    """Every column; raises `SessionNotFound`."""
    row = await find_session(tx, session_id)
    if row is None:
        raise SessionNotFound(f"session {session_id}")
    return row


async def list_sessions(tx: Tx, project_id: int, limit: int = 100) -> Sequence[Row[Any]]:
    """The project's sessions, the one that was used last first."""
    newest = select(_sessions).where(_sessions.c.project_id == project_id)
    ordered = newest.order_by(_sessions.c.updated_at_ms.desc(), _sessions.c.id.desc()).limit(limit)
    return (await tx.execute(ordered)).all()


async def list_runs_of_session(tx: Tx, session_id: int) -> Sequence[Row[Any]]:
    """id, status, prompt, retry_of, created_at_ms and finished_at_ms of each run, oldest first."""
    columns = [_runs.c.id, _runs.c.status, _prompts.c.prompt, _prompts.c.retry_of]
    found = select(*columns, _runs.c.created_at_ms, _runs.c.finished_at_ms)
    of_session = found.join(_prompts, _prompts.c.run_id == _runs.c.id).where(_prompts.c.session_id == session_id)
    return (await tx.execute(of_session.order_by(_runs.c.id))).all()


async def find_prompt(tx: Tx, run_id: int) -> Row[Any] | None:
    """What a run was asked for; None for a run of an outside agent."""
    return (await tx.execute(select(_prompts).where(_prompts.c.run_id == run_id))).first()


async def list_messages(tx: Tx, session_id: int) -> list[StoredMessage]:
    """The whole history of a session, in order."""
    found = (
        select(_messages.c.run_id, _messages.c.position, _messages.c.message)
        .where(_messages.c.session_id == session_id)
        .order_by(_messages.c.run_id, _messages.c.position)
    )
    return [StoredMessage(**row) for row in (await tx.execute(found)).mappings()]


async def append_messages(tx: Tx, session_id: int, run_id: int, messages: Sequence[Mapping[str, Any]]) -> None:
    """Add messages behind those of the run. Call it under the run's `Turn`."""
    last = select(func.max(_messages.c.position)).where(_messages.c.run_id == run_id)
    begin = (await tx.execute(last)).scalar()
    for position, message in enumerate(messages, start=0 if begin is None else begin + 1):
        await tx.insert(
            _messages,
            session_id=session_id,
            run_id=run_id,
            position=position,
            message=message,
            created_at_ms=tx.now,
        )


async def begin_turn(tx: Tx, run_id: int, owner: str) -> Turn | None:
    """Take a queued run into execution; None when it is no longer queued for this process."""
    prompt = await find_prompt(tx, run_id)
    began = (
        update(_runs)
        .where(_runs.c.id == run_id, _runs.c.status.in_(RUN.sources("start")), _runs.c.process_owner == owner)
        .values(status=RUN.target("start"), started_at_ms=tx.now)
        .returning(_runs.c.id)
    )
    if prompt is None or (await tx.execute(began)).first() is None:
        return None
    await _touch(tx, run_id)
    await append_event(tx, run_id, "run.started", {"owner": owner})
    return Turn(run_id, prompt.session_id, owner)


async def begin_resumed_turn(tx: Tx, run_id: int, owner: str, held: Lease) -> Turn | None:
    """Take a run whose batch was just claimed in this transaction into execution (A4).

    Also when it is running already: then an earlier coordinator died over it. None when the run is over.
    """
    prompt = await find_prompt(tx, run_id)
    if prompt is None:
        return None
    began = (
        update(_runs)
        .where(_runs.c.id == run_id, _runs.c.status.in_((*RUN.sources("resume"), RUN.target("resume"))))
        .values(status=RUN.target("resume"), process_owner=owner)
        .returning(_runs.c.id)
    )
    if (await tx.execute(began)).first() is None:
        return None
    await _touch(tx, run_id)
    await append_event(tx, run_id, "run.resumed", {"owner": owner, "generation": held.fence})
    return Turn(run_id, prompt.session_id, owner, held)


async def require_turn(tx: Tx, turn: Turn) -> None:
    """Lock the run for a write of this turn; raises `LeaseLost` for whoever has lost it (A4, Q3). First in its tx."""
    if turn.lease is not None:
        await lease.require_held(tx, turn.lease)
    mine = (_runs.c.id == turn.run_id, _runs.c.status == RUN.target("start"), _runs.c.process_owner == turn.owner)
    if (await tx.execute(select(_runs.c.id).where(*mine).with_for_update(key_share=True))).first() is None:
        raise LeaseLost(f"run {turn.run_id} is not executed by {turn.owner} any more")
    await _touch(tx, turn.run_id)


async def close_turn(tx: Tx, turn: Turn) -> None:
    """The fence of a turn's last transaction; raises `LeaseLost`. A resumed batch is delivered with it (A4)."""
    if turn.lease is None:
        await require_turn(tx, turn)
        return
    await external.finish_batch(tx, turn.lease)
    await require_turn(tx, replace(turn, lease=None))


async def list_queued(tx: Tx, owner: str) -> Sequence[int]:
    """The runs that this process has still to begin."""
    mine = select(_runs.c.id).where(_runs.c.process_owner == owner, _runs.c.status == RUN.initial)
    return (await tx.execute(mine.order_by(_runs.c.id))).scalars().all()


async def rest_turn(tx: Tx, turn: Turn) -> None:
    """Let a resumed run wait again, for its batch was released (A7); raises nothing when it is over already."""
    waits = (
        update(_runs)
        .where(_runs.c.id == turn.run_id, _runs.c.status == "running", _runs.c.process_owner == turn.owner)
        .values(status=RUN.target("wait"))
        .returning(_runs.c.id)
    )
    if (await tx.execute(waits)).first() is not None:
        await append_event(tx, turn.run_id, "run.released", {"owner": turn.owner})


async def beat(tx: Tx, owner: str, run_ids: Sequence[int]) -> set[int]:
    """Say that this process executes these runs; answers those that are still its own."""
    if not run_ids:
        return set()
    mine = select(_runs.c.id).where(
        _runs.c.id.in_(run_ids), _runs.c.process_owner == owner, _runs.c.finished_at_ms.is_(None)
    )
    ids = set((await tx.execute(mine)).scalars())
    if ids:
        await tx.execute(update(_prompts).where(_prompts.c.run_id.in_(ids)).values(heartbeat_at=tx.now))
    return ids


async def _touch(tx: Tx, run_id: int) -> None:
    await tx.execute(update(_prompts).where(_prompts.c.run_id == run_id).values(heartbeat_at=tx.now))


async def _same_again(tx: Tx, run: Row[Any], asked: AgentRun) -> StartedRun:
    if run.request_digest != asked.request_digest:
        raise IdempotencyKeyReused(f"the key has already made run {run.id} from another request")
    prompt = await find_prompt(tx, run.id)
    assert prompt is not None, "the digest says that this was an agent's run"
    return StartedRun(run.id, prompt.session_id, created=False)


async def _create_session(tx: Tx, asked: AgentRun) -> int:
    return await tx.insert(
        _sessions,
        workspace_id=asked.workspace_id,
        project_id=asked.project_id,
        user_id=asked.user_id,
        title=" ".join(asked.prompt.split())[:100] or "session",
        focus=asked.focus,
        created_at_ms=tx.now,
        updated_at_ms=tx.now,
    )


async def _lock_free_session(tx: Tx, asked: AgentRun, session_id: int) -> None:
    """Hold the session until the transaction ends: of two that start a run at once the second sees the first."""
    locked = select(_sessions.c.project_id).where(_sessions.c.id == session_id).with_for_update()
    row = (await tx.execute(locked)).first()
    if row is None or row.project_id != asked.project_id:
        raise SessionNotFound(f"session {session_id}")
    live = (
        select(_runs.c.id)
        .join(_prompts, _prompts.c.run_id == _runs.c.id)
        .where(_prompts.c.session_id == session_id, _runs.c.finished_at_ms.is_(None))
    )
    busy = (await tx.execute(live)).scalar()
    if busy is not None:
        raise SessionBusy(f"Run {busy} of this session has not ended.")
