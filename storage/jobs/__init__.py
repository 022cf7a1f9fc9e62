"""Durable jobs: the statements of every kind (Q1-Q5, Q10).

A kind is the table that its jobs live in (`kinds.py`). Who gets a job is `claims.py`, what becomes of it is `ends.py`,
what is seen of it is `views.py`, of those behind a run's calls `of_calls.py`; `page_mutations.py` has what only that
kind has. Callers name all of it `jobs.…`.
"""

from pagegate.storage.jobs.claims import Waiting, claim_job, claim_jobs, list_waiting
from pagegate.storage.jobs.ends import (
    CANCELLED,
    LEASE_LOST,
    End,
    Ending,
    Renewal,
    finish_job,
    finish_jobs,
    release_job,
    renew_jobs,
    request_cancel,
    rescue_job,
    retry_job,
)
from pagegate.storage.jobs.kinds import (
    COMPONENT_MUTATION,
    IMAGE_GENERATION,
    PAGE_MUTATION,
    SUBJECTS,
    ClaimedJob,
    JobNotFound,
    runnable,
    waiting_for,
)
from pagegate.storage.jobs.of_calls import jobs_of_run
from pagegate.storage.jobs.page_mutations import change_candidate_code, find_earlier_version, list_candidate_codes
from pagegate.storage.jobs.views import (
    ExpiredJob,
    QueueCounts,
    count_active,
    get_job,
    is_cancel_requested,
    list_expired,
    next_available_at,
    queue_counts,
)

__all__ = [
    "CANCELLED",
    "COMPONENT_MUTATION",
    "IMAGE_GENERATION",
    "LEASE_LOST",
    "PAGE_MUTATION",
    "SUBJECTS",
    "ClaimedJob",
    "End",
    "Ending",
    "ExpiredJob",
    "JobNotFound",
    "QueueCounts",
    "Renewal",
    "Waiting",
    "change_candidate_code",
    "claim_job",
    "claim_jobs",
    "count_active",
    "find_earlier_version",
    "finish_job",
    "finish_jobs",
    "get_job",
    "is_cancel_requested",
    "jobs_of_run",
    "list_candidate_codes",
    "list_expired",
    "list_waiting",
    "next_available_at",
    "queue_counts",
    "release_job",
    "renew_jobs",
    "request_cancel",
    "rescue_job",
    "retry_job",
    "runnable",
    "waiting_for",
]
