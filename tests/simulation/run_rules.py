"""What must be true of runs at every commit: one result a call, one end a run, told as it was (A3, A4, A7).

`books.py` asks. Rules look at the books' rows and at the leases that the transaction presented, and share no code with
what they judge.
"""

import json
from types import SimpleNamespace as Row
from typing import TYPE_CHECKING

from tests.simulation.moves import BATCHES, CALL_JOBS, CALLS, ENDS, RUNS, TASKS, Change, Violation

if TYPE_CHECKING:
    from tests.simulation.books import Books
    from tests.simulation.database import Session


def judge_task(books: "Books", change: Change) -> None:
    task, old = change.new, change.old
    if old is not None and old.state in ENDS and task.state in ENDS:
        raise Violation(f"call {task.tool_call_id} was told {old.state}, and then {task.state}")
    if old is not None and old.state in ENDS and task.state not in ENDS:
        batch = books.rows[BATCHES][task.batch_id]
        if batch.state != "waiting" or books.rows[RUNS][batch.run_id].status in ENDS:
            raise Violation(f"call {task.tool_call_id} is open again, and its batch is {batch.state}")
    if task.state in ENDS and task.job_id is not None and books.rows[task.job_kind][task.job_id].status != task.state:
        raise Violation(f"call {task.tool_call_id} is told {task.state} of job {task.job_id}, which is not")


def judge_run(books: "Books", change: Change, session: "Session") -> None:
    run, old = change.new, change.old
    if old is None or run.last_event_index > old.last_event_index:
        _judge_events(books, run, 0 if old is None else old.last_event_index, session)
    count, last = books.raw.execute(
        "SELECT count(*), max(event_index) FROM ai_agent_run_events WHERE run_id = ?", (run.id,)
    ).fetchone()
    if not count == (last or 0) == run.last_event_index:
        raise Violation(f"run {run.id} counts {run.last_event_index} events and has {count}, up to {last}")
    if run.status != "succeeded" or (old is not None and old.status == "succeeded"):
        return
    batches = [row for row in books.rows[BATCHES].values() if row.run_id == run.id]
    if any((BATCHES, row.id) not in session.held for row in batches if row.run_step == run.run_step):
        raise Violation(f"run {run.id} was resumed without the lease of its batch")
    told = [task for task in books.rows[TASKS].values() if task.batch_id in {row.id for row in batches}]
    if any(task.state not in ENDS for task in told):
        raise Violation(f"run {run.id} ended before all of its calls had")
    if json.loads(run.result)["all_saved"] != all(task.state == "succeeded" for task in told):
        raise Violation(f"run {run.id} says of its calls what is not true")


def _judge_events(books: "Books", run: Row, after: int, session: "Session") -> None:
    """What a run is told of a job comes from who works on it, and its end is told once."""
    news = books.raw.execute(
        "SELECT kind, data FROM ai_agent_run_events WHERE run_id = ? AND event_index > ?", (run.id, after)
    ).fetchall()
    for kind, text in news:
        data = json.loads(text)
        if kind == "tool.progress":
            held = [session.held.get(place) for place in _jobs_of(books, run.id, data["call_id"])]
            if data["attempt"] not in [lease.fence for lease in held if lease is not None]:
                raise Violation(f"attempt {data['attempt']} of {data['call_id']} tells of itself without its lease")
        elif kind in {"tool.ended", "run.finished"}:
            told = [json.loads(text) for text in _told(books, run.id, kind)]
            about = {"job_id": data.get("job_id"), "call_id": data.get("call_id")}
            same = [one for one in told if about == {name: one.get(name) for name in about}]
            if len(same) > 1:
                raise Violation(f"run {run.id} is told {kind} twice: {same}")
            if kind == "tool.ended" and any(
                books.rows[table][job_id].status not in ENDS
                for table, job_id in _jobs_of(books, run.id, data["call_id"])
                if job_id == data["job_id"]
            ):
                raise Violation(f"run {run.id} is told the end of job {data['job_id']}, which goes on")


def _jobs_of(books: "Books", run_id: int, call_id: str) -> list[tuple[str, int]]:
    """(table, id) of each job that a call ever had."""
    calls = [row for row in books.rows[CALLS].values() if (row.run_id, row.call_id) == (run_id, call_id)]
    return [
        (table, job.id) for table in CALL_JOBS for job in books.rows[table].values() if job.tool_call_id == calls[0].id
    ]


def _told(books: "Books", run_id: int, kind: str) -> list[str]:
    found = books.raw.execute(
        "SELECT data FROM ai_agent_run_events WHERE run_id = ? AND kind = ?", (run_id, kind)
    ).fetchall()
    return [data for (data,) in found]
