"""What is saved of a page, what is looked at again before that (Q7), and what is pruned (Q11)."""

from pagegate.actors.jobs import call_job, page_mutation
from pagegate.storage import pages, pruning, workspaces
from tests.simulation.mutant import mutant

_PAGES = (
    mutant(
        pages,
        "add_page_version",
        "over a newer one",
        "                pages.c.current_version_number == expected_current_number,\n",
        "",
        "editors",
    ),
    mutant(
        pages,
        "add_page_version",
        "to a deleted page",
        "                pages.c.deleted_at_ms.is_(None),\n",
        "",
        "pages come and go",
    ),
    mutant(pages, "insert_page_with_first_version", "over another page", "if not added:", "if False:", "namesakes"),
    # what is looked at again before the commit (Q7)
    mutant(
        call_job,
        "why_stopped",
        "whoever asked",
        "not await is_active_editor(tx, job.row.workspace_id, job.row.user_id)",
        "False",
        "revocations",
    ),
    mutant(call_job, "why_stopped", "after a cancel", "run.status in RUN.terminal or "),
    mutant(
        call_job,
        "why_stopped",
        "after every cancel",
        "run.status in RUN.terminal or await jobs.is_cancel_requested(tx, job.lease.table, job.id)",
        "False",
        "late cancels",
    ),
    mutant(
        workspaces, "is_active_editor", "disabled ones too", ", users.c.disabled_at_ms.is_(None)", "", "revocations"
    ),
    # content and infrastructure (R9)
    mutant(
        page_mutation,
        "decide",
        "unseen is refused",
        'if verdict.status == "unavailable":',
        "if False:",
        "broken browsers",
    ),
    mutant(
        page_mutation,
        "decide",
        "unseen is saved",
        'verdict.success or (verdict.status == "unavailable" and skip_visual_verification)',
        'verdict.success or verdict.status == "unavailable"',
        "broken browsers",
    ),
)

_PRUNING = (
    mutant(pruning, "_may_go", "undelivered ones too", ", ~undelivered", "", "pruners"),
    mutant(pruning, "_may_go", "with jobs that are kept", ", *[~one for one in kept]", "", "pruners"),
    mutant(pruning, "_may_go", "live ones too", "_runs.c.status.in_(RUN.terminal), ", "", "pruners"),
    mutant(
        pruning,
        "_is_old",
        "as soon as they end",
        "table.c.finished_at_ms <= tx.now - kept_ms",
        "table.c.finished_at_ms <= tx.now",
        "pruners",
    ),
)

MUTANTS = (*_PAGES, *_PRUNING)

SURVIVORS = {
    "pruning._may_go: undelivered ones too": "a run ends in the commit that delivers or closes its last batch",
    "pruning._may_go: live ones too": "what goes on has no time of its end that could be long ago",
    "call_job.why_stopped: after a cancel": "a cancelled run has asked each of its jobs to stop, in the same commit",
}
