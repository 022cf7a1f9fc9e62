"""Builds and releases: who may say what of them, what is promoted, what is deleted (B1-B3, B5)."""

from pagegate.actors.compiling import build_puller
from pagegate.actors.jobs import project_build
from pagegate.http.backend import internal_builds
from pagegate.storage import builds, jobs, pruning
from tests.simulation.mutant import UNFENCED, Mutant, mutant

_LISTED = mutant(
    jobs.views, "list_expired", "a live lease is listed", "            table.c.lease_expires_at <= tx.now,\n"
)

_STATEMENTS = (
    Mutant(builds, "renew_build", "no fence", (UNFENCED,), ("late words about a build", "sleeping builders")),
    mutant(
        builds,
        "renew_build",
        "after its deadline",
        "if row.deadline_at is not None and row.deadline_at <= await tx.now_ms():",
        "if False:",
        "build over its time",
        "failing builds",
    ),
    Mutant(builds, "claim_build", "no fence", (UNFENCED,), ("builders",)),
    Mutant(builds, "promote", "no fence", (UNFENCED,), ("sleeping builders", "bad wires")),
    mutant(
        builds, "promote", "after a cancel", "if row.cancel_requested_at is not None:", "if False:", "cancelled builds"
    ),
    mutant(
        builds,
        "promote",
        "without an end",
        'await jobs.finish_job(tx, lease, "finish", result=result)',
        "pass",
        "builders",
    ),
    Mutant(builds, "fail_build", "no fence", (UNFENCED,), ("sleeping builders", "bad wires")),
    mutant(
        builds,
        "claim_build",
        "after its deadline",
        "if left_ms > 0:",
        "if True:",
        "build over its time",
        "failing builds",
    ),
    mutant(
        builds,
        "end_unclaimed",
        "before its deadline",
        "if job.row.deadline_at > await tx.now_ms():",
        "if False:",
        "unclaimed among others",
        "failing builds",
    ),
    mutant(
        builds,
        "interrupt_expired",
        "any attempt",
        "                _jobs.c.attempt == expired.fence,\n",
        "",
        "builders",
    ),
    mutant(builds, "interrupt_expired", "any state", '                _jobs.c.status == "running",\n', "", "builders"),
    mutant(
        builds,
        "interrupt_expired",
        "a live lease too",
        "                _jobs.c.lease_expires_at <= tx.now,\n",
        "",
        "builders",
    ),
    mutant(
        builds,
        "interrupt_expired",
        "a live lease is listed and over",
        "                _jobs.c.lease_expires_at <= tx.now,\n",
        "",
        "builders",
        "sleeping builders",
        along=_LISTED,
    ),
    mutant(
        builds,
        "interrupt_expired",
        "a cancelled one too",
        "asked = _jobs.c.cancel_requested_at.is_not(None)",
        "asked = literal(False)",
        "cancelled builds",
    ),
)

_DOOR = (
    mutant(internal_builds, "_attempt", "any token", "    _verify(call, _subject(job_id, attempt))\n", "", "bad wires"),
    mutant(
        internal_builds,
        "_attempt",
        "any attempt",
        "if not await builds.is_held_now(tx, lease):",
        "if False:",
        "bad wires",
        "sleeping builders",
    ),
    mutant(
        internal_builds,
        "upload_artifact",
        "deletes what may still be released",
        "unheard = True",
        "pass",
        "release that lands late",
        "lost uploads",
    ),
    mutant(
        project_build,
        "forget_upload",
        "also when it was released",
        "if await builds.is_released(tx, object_key):",
        "if False:",
        "release nobody heard of",
    ),
    mutant(project_build, "_forget", "its release too", ", keep=keep", "", "leftovers of killed backends"),
    mutant(
        project_build,
        "sweep_builds",
        "nothing",
        "await _forget(db, objects, job.project_id, job.id, numbers)",
        "pass",
        "leftovers of killed backends",
        "lost uploads",
    ),
    mutant(
        pruning,
        "prune_loose_jobs",
        "before it was swept",
        '*([table.c.swept_at_ms.is_not(None)] if "swept_at_ms" in table.c else []),',
        "",
        "lost uploads",
    ),
    # content and infrastructure (R9)
    mutant(
        build_puller.BuildPuller,
        "_work",
        "a Runtime's fault is the source's",
        'return run.failure("PROJECT_BUILD_RUNTIME_UNAVAILABLE"',
        'return run.failure("PROJECT_BUILD_SOURCE_ERROR"',
        "faults of a runtime",
        "failing builds",
    ),
)

MUTANTS = (*_STATEMENTS, *_DOOR)

SURVIVORS = {
    "builds.claim_build: no fence": "it was claimed in the same transaction",
    "builds.promote: no fence": "the job ends last in the same transaction, under the whole fence: it rolls back",
    "builds.fail_build: no fence": "the job ends next in the same transaction, under the whole fence: it rolls back",
    "builds.interrupt_expired: any attempt": "a build is claimed by one Runtime at most; there is no later attempt",
    "builds.interrupt_expired: any state": "it was listed as running in the same transaction",
    "builds.interrupt_expired: a live lease too": "it was listed as over in the same transaction, and time goes on",
    "internal_builds._attempt: any attempt": "each statement behind the door asks for the whole lease again",
}
