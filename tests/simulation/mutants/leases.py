"""The lease's one predicate, and every statement that has it: without parts of it, without all of it (Q3, Q4)."""

from pagegate.actors.jobs import call_job
from pagegate.actors.queues import lane_writer
from pagegate.storage import external, jobs, lease, render_attempts, render_requests
from tests.simulation.mutant import UNFENCED, Cut, Mutant, mutant

_UNFENCED_GIVEN: Cut = (".where(held_as_given(kind, given, present))", ".where(table.c.id == given.c.id)")

_WORKER = "        leased.worker == lease.worker_id,\n"
_FENCE = "        leased.fence == lease.fence,\n"
_ACTIVE = "        leased.active,\n"
_UNEXPIRED = "        leased.table.c.lease_expires_at > present,\n"

_PREDICATE = (
    mutant(lease, "is_held", "any worker", _WORKER, "", "restored backup"),
    mutant(lease, "is_held", "any fence", _FENCE, "", "late renewal", "lone sleeper", "sleepers"),
    Mutant(lease, "is_held", "any worker, any fence", ((_WORKER, ""), (_FENCE, "")), ("sleepers", "stragglers")),
    mutant(lease, "is_held", "any state", _ACTIVE, "", "long renders"),
    mutant(lease, "is_held", "also when expired", _UNEXPIRED, "", "lone sleeper"),
    Mutant(
        lease,
        "is_held",
        "nothing but the id",
        ((_WORKER, ""), (_FENCE, ""), (_ACTIVE, ""), (_UNEXPIRED, "")),
        ("sleepers", "lone sleeper"),
    ),
)

_FENCED = (
    Mutant(lease, "renew", "no fence", (UNFENCED,), ("stragglers", "sleepers", "stale words")),
    mutant(
        lease,
        "require_held",
        "no fence",
        ".where(held(tx, lease))",
        ".where(table.c.id == lease.id)",
        "lone sleeper",
        "stale words",
    ),
    Mutant(jobs.ends, "_renewal", "no fence", (_UNFENCED_GIVEN,), ("stragglers", "sleepers", "stale words")),
    Mutant(jobs.ends, "_finish", "no fence", (_UNFENCED_GIVEN,), ("lone sleeper", "sleepers", "stale words")),
    mutant(
        jobs.ends,
        "finish_jobs",
        "goes on when a lease is lost",
        "if lost := [one.lease for one in endings if (one.lease.id, one.lease.fence) not in ended]:",
        "if lost := []:",
        "lone sleeper",
        "stale words",
    ),
    mutant(
        jobs.ends,
        "finish_jobs",
        "any claim of the job",
        "if (one.lease.id, one.lease.fence) not in ended]",
        "if one.lease.id not in {number for number, _ in ended}]",
        "two claims in a group",
    ),
    mutant(
        lane_writer,
        "_is_held",
        "any claim of the job",
        " and renewed[job.id].is_of(job.lease)",
        "",
        "two claims in a group",
        "lone sleeper",
    ),
    Mutant(jobs, "change_candidate_code", "no fence", (UNFENCED,), ("sleeping planners", "stale words")),
    mutant(jobs, "retry_job", "no fence", "held(tx, lease)", "table.c.id == lease.id", "lone sleeper", "stale words"),
    mutant(
        jobs,
        "release_job",
        "no fence",
        "held(tx, lease)",
        "table_of(lease.table).c.id == lease.id",
        "woken to stop",
        "stale words",
    ),
    Mutant(external, "finish_batch", "no fence", (UNFENCED,), ("sleeping coordinators",)),
    Mutant(external, "release_batch", "no fence", (UNFENCED,), ("batch given back late",)),
    mutant(
        render_requests,
        "enqueue_request",
        "no fence",
        "await require_held(tx, job)",
        "pass",
        "lone sleeper",
        "stale words",
    ),
    mutant(
        call_job.CallTeller,
        "progress",
        "no fence",
        "await lease.require_held(tx, job.lease)",
        "pass",
        "sleepers",
    ),
    Mutant(
        render_attempts,
        "_end_attempt",
        "no fence",
        (("where(held(tx, lease))", "where(_attempts.c.id == lease.id)"), UNFENCED),
        ("lone sleeper",),
    ),
    mutant(
        render_attempts,
        "_end_attempt",
        "no fence at the request",
        "where(held(tx, lease))",
        "where(_attempts.c.id == lease.id)",
    ),
    mutant(render_attempts, "_end_attempt", "any attempt of the request", "_requests.c.attempt == lease.fence,"),
    Mutant(render_attempts, "_end_attempt", "no fence at the slot", (UNFENCED,)),
)

MUTANTS = (*_PREDICATE, *_FENCED)

SURVIVORS = {
    "render_attempts._end_attempt: no fence at the request": (
        "the slot is ended next, in the same transaction and under the whole fence: it rolls back"
    ),
    "render_attempts._end_attempt: no fence at the slot": "the request was moved before, under the whole fence",
    "render_attempts._end_attempt: any attempt of the request": (
        "a request runs for the one attempt of it that is unreleased, and the fence asks for that"
    ),
}
