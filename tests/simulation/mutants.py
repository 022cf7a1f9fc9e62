"""Proof that the simulation can fail: statements and decisions without a condition that they need.

The fence is taken out of each fenced statement in turn, the condition out of each claim, rescue, limit and re-check. A
mutant names the weather in which it is likely noticed; `hunt.py` looks for worlds that do. What no world could ever
notice stands in `SURVIVORS` with the reason, which is nearly always a second fence behind the one that is missing.
"""

from types import ModuleType

from pagegate.actors.jobs import page_mutation
from pagegate.actors.queues import lane_writer, rotation
from pagegate.storage import (
    external,
    jobs,
    lease,
    pages,
    pruning,
    render_attempts,
    render_requests,
    retries,
    runs,
    steps,
    workspaces,
)
from tests.simulation.mutant import Cut, Mutant

_UNFENCED_GIVEN: Cut = (".where(held_as_given(kind, given, present))", ".where(table.c.id == given.c.id)")
_UNFENCED: Cut = ("await fenced_update(", "await _unfenced_update(")


def _mutant(
    module: ModuleType | type,
    function: str,
    says: str,
    old: str,
    new: str = "",
    *weather: str,
    along: Mutant | None = None,
) -> Mutant:
    return Mutant(module, function, says, ((old, new),), weather or ("mixed",), along)


_WORKER = "        leased.worker == lease.worker_id,\n"
_FENCE = "        leased.fence == lease.fence,\n"
_ACTIVE = "        leased.active,\n"
_UNEXPIRED = "        leased.table.c.lease_expires_at > present,\n"

_PREDICATE = (
    _mutant(lease, "is_held", "any worker", _WORKER, "", "restored backup"),
    _mutant(lease, "is_held", "any fence", _FENCE, "", "late renewal", "lone sleeper", "sleepers"),
    Mutant(lease, "is_held", "any worker, any fence", ((_WORKER, ""), (_FENCE, "")), ("sleepers", "stragglers")),
    _mutant(lease, "is_held", "any state", _ACTIVE, "", "long renders"),
    _mutant(lease, "is_held", "also when expired", _UNEXPIRED, "", "lone sleeper"),
    Mutant(
        lease,
        "is_held",
        "nothing but the id",
        ((_WORKER, ""), (_FENCE, ""), (_ACTIVE, ""), (_UNEXPIRED, "")),
        ("sleepers", "lone sleeper"),
    ),
)

_FENCED = (
    Mutant(lease, "renew", "no fence", (_UNFENCED,), ("stragglers", "sleepers", "stale words")),
    _mutant(
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
    _mutant(
        jobs.ends,
        "finish_jobs",
        "goes on when a lease is lost",
        "if lost := [one.lease for one in endings if (one.lease.id, one.lease.fence) not in ended]:",
        "if lost := []:",
        "lone sleeper",
        "stale words",
    ),
    _mutant(
        jobs.ends,
        "finish_jobs",
        "any claim of the job",
        "if (one.lease.id, one.lease.fence) not in ended]",
        "if one.lease.id not in {number for number, _ in ended}]",
        "two claims in a group",
    ),
    _mutant(
        lane_writer,
        "_is_held",
        "any claim of the job",
        " and renewed[job.id].is_of(job.lease)",
        "",
        "two claims in a group",
        "lone sleeper",
    ),
    Mutant(jobs, "change_candidate_code", "no fence", (_UNFENCED,), ("sleeping planners", "stale words")),
    _mutant(jobs, "retry_job", "no fence", "held(tx, lease)", "table.c.id == lease.id", "lone sleeper", "stale words"),
    _mutant(
        jobs,
        "release_job",
        "no fence",
        "held(tx, lease)",
        "table_of(lease.table).c.id == lease.id",
        "woken to stop",
        "stale words",
    ),
    Mutant(external, "finish_batch", "no fence", (_UNFENCED,), ("sleeping coordinators",)),
    Mutant(external, "release_batch", "no fence", (_UNFENCED,), ("batch given back late",)),
    _mutant(
        render_requests,
        "enqueue_request",
        "no fence",
        "await require_held(tx, job)",
        "pass",
        "lone sleeper",
        "stale words",
    ),
    _mutant(
        page_mutation.PageMutation,
        "_tell_progress",
        "no fence",
        "await lease.require_held(tx, job.lease)",
        "pass",
        "sleepers",
    ),
    Mutant(
        render_attempts,
        "_end_attempt",
        "no fence",
        (("where(held(tx, lease))", "where(_attempts.c.id == lease.id)"), _UNFENCED),
        ("lone sleeper",),
    ),
    _mutant(
        render_attempts,
        "_end_attempt",
        "no fence at the request",
        "where(held(tx, lease))",
        "where(_attempts.c.id == lease.id)",
    ),
    _mutant(render_attempts, "_end_attempt", "any attempt of the request", "_requests.c.attempt == lease.fence,"),
    Mutant(render_attempts, "_end_attempt", "no fence at the slot", (_UNFENCED,)),
)

_CLAIMS_AND_RESCUES = (
    _mutant(jobs.claims, "_claim", "the fence stays", "attempt=table.c.attempt + 1", "attempt=table.c.attempt"),
    _mutant(jobs.claims, "_claim", "whatever its state", ", table.c.status.in_(_CLAIMABLE)"),
    _mutant(jobs.claims, "_claim", "from a paused lane", ", lanes.is_open(kind)", "", "operators"),
    _mutant(jobs, "runnable", "before its time", ", table.c.available_at <= present", "", "operators", "mixed"),
    _mutant(jobs, "runnable", "before earlier calls", "return and_(now, ~found.exists())", "return now", "editors"),
    _mutant(jobs, "rescue_job", "any attempt", "        table.c.attempt == fence,\n"),
    _mutant(jobs, "rescue_job", "any state", '        table.c.status == "running",\n'),
    _mutant(
        jobs, "rescue_job", "a live lease too", "        table.c.lease_expires_at <= tx.now,\n", "", "clock put back"
    ),
    Mutant(
        jobs,
        "rescue_job",
        "any attempt, a live lease too",
        (("        table.c.attempt == fence,\n", ""), ("        table.c.lease_expires_at <= tx.now,\n", "")),
        ("sleeping rescuers", "paused rescuer"),
    ),
    _mutant(
        jobs.ends,
        "_put_back",
        "its renders go on",
        "await renders.cancel_requests_of_job(tx, kind, row.id, attempt_max=row.attempt)",
        "pass",
        "long renders",
    ),
    _mutant(
        jobs,
        "finish_jobs",
        "its renders go on",
        "await renders.cancel_requests_of_job(tx, kind, one.lease.id, attempt_max=one.lease.fence)",
        "pass",
        "cancelled renders",
    ),
    _mutant(
        jobs,
        "finish_jobs",
        "its call is not told",
        "await external.write_task_result(tx, kind, one.lease.id, state, one.told or one.result or error)",
        "pass",
    ),
    _mutant(jobs, "request_cancel", "ended ones too", ', table.c.status.in_(JOB.sources("cancel"))', "", "operators"),
    _mutant(
        external,
        "claim_ready_batch",
        "a live lease too",
        'and_(_batches.c.state == "resuming", _batches.c.lease_expires_at <= tx.now)',
        '_batches.c.state == "resuming"',
        "sleeping coordinators",
    ),
    _mutant(
        external,
        "claim_ready_batch",
        "the generation stays",
        "lease_generation=_batches.c.lease_generation + 1",
        "lease_generation=_batches.c.lease_generation",
    ),
)

_ONE_RESULT = (
    _mutant(external, "write_task_result", "over an earlier one", ", _tasks.c.state == EXTERNAL_TASK.initial"),
    _mutant(external, "settle_batch", "before the last call", ", ~pending", "", "crowd", "editors"),
    _mutant(
        runs, "finish_run", "ended ones too", ", _runs.c.status.in_(RUN.sources(event))", "", "lost answers", "mixed"
    ),
    _mutant(
        steps,
        "submit_step",
        "as often as it is asked for",
        "known = await _find_earlier(tx, step)",
        "known = None",
        "crowd",
    ),
    _mutant(
        steps,
        "submit_step",
        "over the limit of live jobs",
        "active + len(wanted) > step.active_jobs_max",
        "False",
        "crowd",
    ),
    _mutant(
        external,
        "reopen_task",
        "when it was told",
        'elif batch.state != EXTERNAL_BATCH.target("reopen"):',
        "elif False:",
        "late retries",
    ),
    _mutant(retries, "retry_failed_job", "whatever its end", 'if failed.status != JOB.target("fail"):', "if False:"),
)

_RENDERS = (
    _mutant(
        render_attempts,
        "_limit_reached",
        "any number in all",
        "used.everywhere >= global_max",
        "False",
        "one render at once",
    ),
    _mutant(
        render_attempts, "_limit_reached", "any number in a workspace", "used.here >= workspace_max", "False", "crowd"
    ),
    _mutant(
        render_attempts,
        "_limit_reached",
        "two on a worker",
        "WORKER_TAKEN if used.on_worker else None",
        "WORKER_TAKEN if 0 else None",
        "crowd",
    ),
    _mutant(
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
    _mutant(
        render_requests,
        "exhaust_requests",
        "any number of attempts",
        "or_(out_of_time, _used >= attempts_max)",
        "out_of_time",
        "broken browsers",
    ),
    _mutant(render_attempts, "expire_attempts", "a live lease is listed", ", _attempts.c.lease_expires_at <= tx.now"),
    _mutant(render_attempts, "_lapse", "a live lease too", ", _attempts.c.lease_expires_at <= tx.now"),
    _mutant(
        render_attempts,
        "expire_attempts",
        "a live lease is listed and lapses",
        ", _attempts.c.lease_expires_at <= tx.now",
        along=_mutant(render_attempts, "_lapse", "a live lease too", ", _attempts.c.lease_expires_at <= tx.now"),
    ),
    _mutant(
        render_requests,
        "cancel_requests_of_job",
        "of later attempts too",
        "            _requests.c.job_attempt <= attempt_max,\n",
    ),
    _mutant(
        render_requests,
        "enqueue_request",
        "any number waits",
        "counted.everywhere >= queue_size_max",
        "False",
        "many renders wait",
    ),
    _mutant(
        render_requests,
        "enqueue_request",
        "any number of a workspace waits",
        "counted.here >= workspace_queue_size_max",
        "False",
        "crowd",
    ),
    _mutant(
        rotation,
        "pick",
        "background when nothing else waits",
        "backgrounds_turn or not interactive",
        "not interactive",
        "endless interactive work",
    ),
    _mutant(
        rotation,
        "_longest_unserved",
        "who came first",
        "(turn.get(head.workspace_id, -1), head.entry_id)",
        "head.entry_id",
        "small workspace behind a large one",
        "small workspace in a lane",
    ),
)

_PAGES = (
    _mutant(
        pages,
        "add_page_version",
        "over a newer one",
        "                pages.c.current_version_number == expected_current_number,\n",
        "",
        "editors",
    ),
    _mutant(
        pages,
        "add_page_version",
        "to a deleted page",
        "                pages.c.deleted_at_ms.is_(None),\n",
        "",
        "pages come and go",
    ),
    _mutant(pages, "insert_page_with_first_version", "over another page", "if not added:", "if False:", "namesakes"),
    # what is looked at again before the commit (Q7)
    _mutant(
        page_mutation,
        "_stopped",
        "whoever asked",
        "not await is_active_editor(tx, job.row.workspace_id, job.row.user_id)",
        "False",
        "revocations",
    ),
    _mutant(page_mutation, "_stopped", "after a cancel", "run.status in RUN.terminal or "),
    _mutant(
        page_mutation,
        "_stopped",
        "after every cancel",
        "run.status in RUN.terminal or await jobs.is_cancel_requested(tx, job.lease.table, job.id)",
        "False",
        "late cancels",
    ),
    _mutant(
        workspaces, "is_active_editor", "disabled ones too", ", users.c.disabled_at_ms.is_(None)", "", "revocations"
    ),
    # content and infrastructure (R9)
    _mutant(
        page_mutation,
        "decide",
        "unseen is refused",
        'if verdict.status == "unavailable":',
        "if False:",
        "broken browsers",
    ),
    _mutant(
        page_mutation,
        "decide",
        "unseen is saved",
        'verdict.success or (verdict.status == "unavailable" and skip_visual_verification)',
        'verdict.success or verdict.status == "unavailable"',
        "broken browsers",
    ),
)

_PRUNING = (
    _mutant(pruning, "_may_go", "undelivered ones too", ", ~undelivered", "", "pruners"),
    _mutant(pruning, "_may_go", "with jobs that are kept", ", *[~one for one in kept]", "", "pruners"),
    _mutant(pruning, "_may_go", "live ones too", "_runs.c.status.in_(RUN.terminal), ", "", "pruners"),
    _mutant(
        pruning,
        "_is_old",
        "as soon as they end",
        "table.c.finished_at_ms <= tx.now - kept_ms",
        "table.c.finished_at_ms <= tx.now",
        "pruners",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_PREDICATE,
    *_FENCED,
    *_CLAIMS_AND_RESCUES,
    *_ONE_RESULT,
    *_RENDERS,
    *_PAGES,
    *_PRUNING,
)

# Not noticed in any world, and why.
SURVIVORS: dict[str, str] = {
    "render_attempts._end_attempt: no fence at the request": (
        "the slot is ended next, in the same transaction and under the whole fence: it rolls back"
    ),
    "render_attempts._end_attempt: no fence at the slot": "the request was moved before, under the whole fence",
    "render_attempts._end_attempt: any attempt of the request": (
        "a request runs for the one attempt of it that is unreleased, and the fence asks for that"
    ),
    "claims._claim: whatever its state": (
        "the row was chosen among pending ones in the same statement; the condition is for two claims on PostgreSQL"
        " that chose at once, and behind SKIP LOCKED even there"
    ),
    "jobs.rescue_job: any attempt": "what is taken then is a later attempt whose lease is over too: as any rescue",
    "jobs.rescue_job: any state": "a job that does not run has no lease that could be over",
    "external.write_task_result: over an earlier one": "a job ends once, so its call is told once",
    "retries.retry_failed_job: whatever its end": "only the call of a failed job can be opened again",
    "render_attempts.expire_attempts: a live lease is listed": "it is asked again where it is taken",
    "render_attempts._lapse: a live lease too": "it was listed as over in the same transaction, and time goes on",
    "render_requests.cancel_requests_of_job: of later attempts too": (
        "whoever cancels holds the fence of the last attempt, or has just taken it from it: there are no later ones"
    ),
    "pruning._may_go: undelivered ones too": "a run ends in the commit that delivers or closes its last batch",
    "pruning._may_go: live ones too": "what goes on has no time of its end that could be long ago",
    "page_mutation._stopped: after a cancel": "a cancelled run has asked each of its jobs to stop, in the same commit",
}
