"""Slots, attempts and turns of renders (R2, R3)."""

from pagegate.actors.queues import rotation
from pagegate.storage import render_attempts, render_requests
from tests.simulation.mutant import Mutant, mutant

MUTANTS = (
    mutant(
        render_attempts,
        "_limit_reached",
        "any number in all",
        "used.everywhere >= global_max",
        "False",
        "one render at once",
    ),
    mutant(
        render_attempts, "_limit_reached", "any number in a workspace", "used.here >= workspace_max", "False", "crowd"
    ),
    mutant(
        render_attempts,
        "_limit_reached",
        "two on a worker",
        "WORKER_TAKEN if used.on_worker else None",
        "WORKER_TAKEN if 0 else None",
        "crowd",
    ),
    mutant(
        render_attempts,
        "reserve_attempt",
        "before its time",
        ", _requests.c.available_at <= tx.now",
        "",
        "sleeping dispatchers",
    ),
    Mutant(
        render_attempts,
        "reserve_attempt",
        "whatever its state",
        (
            ('request is None or request.status != "pending"', "request is None"),
            (', _requests.c.status == "pending"', ""),
        ),
        ("sleeping dispatchers",),
    ),
    mutant(
        render_requests,
        "exhaust_requests",
        "any number of attempts",
        "or_(out_of_time, _used >= attempts_max)",
        "out_of_time",
        "broken browsers",
    ),
    mutant(render_attempts, "expire_attempts", "a live lease is listed", ", _attempts.c.lease_expires_at <= tx.now"),
    mutant(render_attempts, "_lapse", "a live lease too", ", _attempts.c.lease_expires_at <= tx.now"),
    mutant(
        render_attempts,
        "expire_attempts",
        "a live lease is listed and lapses",
        ", _attempts.c.lease_expires_at <= tx.now",
        along=mutant(render_attempts, "_lapse", "a live lease too", ", _attempts.c.lease_expires_at <= tx.now"),
    ),
    mutant(
        render_requests,
        "cancel_requests_of_job",
        "of later attempts too",
        "            _requests.c.job_attempt <= attempt_max,\n",
    ),
    mutant(
        render_requests,
        "enqueue_request",
        "any number waits",
        "counted.everywhere >= queue_size_max",
        "False",
        "many renders wait",
    ),
    mutant(
        render_requests,
        "enqueue_request",
        "any number of a workspace waits",
        "counted.here >= workspace_queue_size_max",
        "False",
        "crowd",
    ),
    mutant(
        rotation,
        "pick",
        "background when nothing else waits",
        "backgrounds_turn or not interactive",
        "not interactive",
        "endless interactive work",
    ),
    mutant(
        rotation,
        "_longest_unserved",
        "who came first",
        "(turn.get(head.workspace_id, -1), head.entry_id)",
        "head.entry_id",
        "small workspace behind a large one",
        "small workspace in a lane",
    ),
)

SURVIVORS = {
    "render_attempts.expire_attempts: a live lease is listed": "it is asked again where it is taken",
    "render_attempts._lapse: a live lease too": "it was listed as over in the same transaction, and time goes on",
    "render_requests.cancel_requests_of_job: of later attempts too": (
        "whoever cancels holds the fence of the last attempt, or has just taken it from it: there are no later ones"
    ),
}
