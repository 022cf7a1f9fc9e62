"""Who gets a job, who takes it away, and that it ends once: claims, rescues, limits, results (Q3, Q5, Q9, A3)."""

from pagegate.storage import external, jobs, retries, runs, steps
from tests.simulation.mutant import Mutant, mutant

_CLAIMS_AND_RESCUES = (
    mutant(jobs.claims, "_claim", "the fence stays", "attempt=table.c.attempt + 1", "attempt=table.c.attempt"),
    mutant(jobs.claims, "_claim", "whatever its state", ", table.c.status.in_(_CLAIMABLE)"),
    mutant(jobs.claims, "_claim", "from a paused lane", ", lanes.is_open(kind)", "", "operators"),
    mutant(jobs, "runnable", "before its time", ", table.c.available_at <= present", "", "operators", "mixed"),
    mutant(jobs, "runnable", "before earlier calls", "now = and_(now, ~found.exists())", "pass", "editors"),
    mutant(jobs, "rescue_job", "any attempt", "        table.c.attempt == fence,\n"),
    mutant(jobs, "rescue_job", "any state", '        table.c.status == "running",\n'),
    mutant(
        jobs, "rescue_job", "a live lease too", "        table.c.lease_expires_at <= tx.now,\n", "", "clock put back"
    ),
    Mutant(
        jobs,
        "rescue_job",
        "any attempt, a live lease too",
        (("        table.c.attempt == fence,\n", ""), ("        table.c.lease_expires_at <= tx.now,\n", "")),
        ("sleeping rescuers", "paused rescuer"),
    ),
    mutant(
        jobs.ends,
        "_put_back",
        "its renders go on",
        "await renders.cancel_requests_of_job(tx, kind, row.id, attempt_max=row.attempt)",
        "pass",
        "long renders",
    ),
    mutant(
        jobs,
        "finish_jobs",
        "its renders go on",
        "await renders.cancel_requests_of_job(tx, kind, one.lease.id, attempt_max=one.lease.fence)",
        "pass",
        "cancelled renders",
    ),
    mutant(
        jobs,
        "finish_jobs",
        "its call is not told",
        "await external.write_task_result(tx, kind, one.lease.id, state, one.told or one.result or error)",
        "pass",
    ),
    mutant(jobs, "request_cancel", "ended ones too", ', table.c.status.in_(JOB.sources("cancel"))', "", "operators"),
    mutant(
        external,
        "claim_ready_batch",
        "a live lease too",
        'and_(_batches.c.state == "resuming", _batches.c.lease_expires_at <= tx.now)',
        '_batches.c.state == "resuming"',
        "sleeping coordinators",
    ),
    mutant(
        external,
        "claim_ready_batch",
        "the generation stays",
        "lease_generation=_batches.c.lease_generation + 1",
        "lease_generation=_batches.c.lease_generation",
    ),
)

_ONE_RESULT = (
    mutant(external, "write_task_result", "over an earlier one", ", _tasks.c.state == EXTERNAL_TASK.initial"),
    mutant(external, "settle_batch", "before the last call", ", ~pending", "", "crowd", "editors"),
    mutant(
        runs, "finish_run", "ended ones too", ", _runs.c.status.in_(RUN.sources(event))", "", "lost answers", "mixed"
    ),
    mutant(
        steps,
        "submit_step",
        "as often as it is asked for",
        "known = await _find_earlier(tx, step)",
        "known = None",
        "crowd",
    ),
    mutant(
        steps,
        "submit_step",
        "over the limit of live jobs",
        "active + count > step.live_max(kind)",
        "False",
        "crowd",
    ),
    mutant(
        external,
        "reopen_task",
        "when it was told",
        'elif batch.state != EXTERNAL_BATCH.target("reopen"):',
        "elif False:",
        "late retries",
    ),
    mutant(retries, "retry_failed_job", "whatever its end", 'if failed.status != JOB.target("fail"):', "if False:"),
)

MUTANTS = (*_CLAIMS_AND_RESCUES, *_ONE_RESULT)

SURVIVORS = {
    "claims._claim: whatever its state": (
        "the row was chosen among pending ones in the same statement; the condition is for two claims on PostgreSQL"
        " that chose at once, and behind SKIP LOCKED even there"
    ),
    "jobs.rescue_job: any attempt": "what is taken then is a later attempt whose lease is over too: as any rescue",
    "jobs.rescue_job: any state": "a job that does not run has no lease that could be over",
    "external.write_task_result: over an earlier one": "a job ends once, so its call is told once",
    "retries.retry_failed_job: whatever its end": "only the call of a failed job can be opened again",
}
