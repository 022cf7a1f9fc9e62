"""What must be true of renders at every commit: slots, limits, whose they are, what they find (R2, R3, Q5).

`books.py` asks. Rules look at the books' rows and at the leases that the transaction presented, and share no code with
what they judge.
"""

import json
from collections import defaultdict
from types import SimpleNamespace as Row
from typing import TYPE_CHECKING

from tests.simulation.moves import ATTEMPTS, CALLS, JOBS, REQUESTS, SHOTS, Change, Violation
from tests.simulation.sources import asked_for, nature_of

if TYPE_CHECKING:
    from tests.simulation.books import Books
    from tests.simulation.database import Session


def judge_slots(books: "Books") -> None:
    unreleased = [row for row in books.rows[ATTEMPTS].values() if row.released_at is None]
    if len(unreleased) > books.limits.renders:
        raise Violation(f"{len(unreleased)} renders hold a slot, {books.limits.renders} may")
    workspaces, workers = defaultdict[int, int](int), defaultdict[str, int](int)
    for attempt in unreleased:
        request = books.rows[REQUESTS][attempt.request_id]
        workspaces[request.workspace_id] += 1
        workers[attempt.worker_id] += 1
        if request.status != "running" or request.attempt != attempt.number:
            raise Violation(f"render attempt {attempt.id} holds a slot for a request that is {request.status}")
    if max(workspaces.values(), default=0) > books.limits.workspace_renders:
        raise Violation(f"a workspace holds {max(workspaces.values())} slots, {books.limits.workspace_renders} may")
    if max(workers.values(), default=0) > 1:
        raise Violation("a Renderer was given two attempts at once")
    running = sum(row.status == "running" for row in books.rows[REQUESTS].values())
    if running != len(unreleased):
        raise Violation(f"{running} render requests run, {len(unreleased)} attempts hold a slot")


def judge_wanted(books: "Books") -> None:
    """A render that is live is one that an attempt at work waits for: others were cancelled with theirs (Q5)."""
    for request in books.rows[REQUESTS].values():
        if request.finished_at_ms is not None:
            continue
        job = books.rows[request.job_kind][request.job_id]
        if job.status != "running" or job.attempt != request.job_attempt:
            raise Violation(f"render request {request.id} goes on for an attempt of job {job.id} that is over")


def judge_render(books: "Books", change: Change, session: "Session") -> None:
    request, old = change.new, change.old
    if old is None:
        held = session.held.get((request.job_kind, request.job_id))
        if held is None or held.fence != request.job_attempt:
            raise Violation(f"render request {request.id} was made without the lease of its job")
        waiting = [row for row in books.rows[REQUESTS].values() if row.status == "pending"]
        here = sum(row.workspace_id == request.workspace_id for row in waiting)
        if len(waiting) > books.limits.waiting_renders or here > books.limits.waiting_renders_of_workspace:
            raise Violation(f"{len(waiting)} renders wait, {here} of them in one workspace")
    elif old.status == "pending" and request.status == "running":
        if old.available_at > session.now_ms:
            raise Violation(f"render request {request.id} runs before it may be tried again")
        if request.attempt - request.busy_returns > books.limits.render_attempts:
            raise Violation(f"render request {request.id} is tried for the {request.attempt}th time")
    elif request.status == "succeeded" and old.status != "succeeded":
        _judge_result(books, request)


def _judge_result(books: "Books", request: Row) -> None:
    """What a render found is about the page that its job had compiled."""
    if request.job_kind == SHOTS:
        return  # it found nothing; whose picture it is, is asked when it is published
    mark = asked_for(books.rows[CALLS][books.rows[JOBS][request.job_id].tool_call_id])
    diagnosis = json.loads(request.result)["diagnosis"]
    if (
        diagnosis is None
        or {"good": "passed", "warned": "warning"}.get(nature_of(mark), "failed") != (diagnosis["status"])
    ):
        raise Violation(f"render request {request.id} of {mark} ends with the finding {diagnosis}")
