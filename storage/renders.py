"""Renders (R2, R3): the statements of `render_requests.py` and `render_attempts.py` under one name.

A request is what a job asked for; an attempt is one use of one Renderer's only slot.
"""

from pagegate.storage.render_attempts import (
    AttemptLease,
    ReserveRefusal,
    expire_attempts,
    fail_attempt,
    finish_attempt,
    list_unreleased,
    reserve_attempt,
    return_busy,
)
from pagegate.storage.render_requests import (
    ATTEMPTS_EXHAUSTED,
    TIMED_OUT,
    EndedAttempt,
    Klass,
    PendingRequest,
    RenderQueueFull,
    RenderRequestNotFound,
    cancel_request,
    cancel_requests_of_job,
    count_by_class,
    enqueue_request,
    get_request,
    list_pending,
)

__all__ = [
    "ATTEMPTS_EXHAUSTED",
    "TIMED_OUT",
    "AttemptLease",
    "EndedAttempt",
    "Klass",
    "PendingRequest",
    "RenderQueueFull",
    "RenderRequestNotFound",
    "ReserveRefusal",
    "cancel_request",
    "cancel_requests_of_job",
    "count_by_class",
    "enqueue_request",
    "expire_attempts",
    "fail_attempt",
    "finish_attempt",
    "get_request",
    "list_pending",
    "list_unreleased",
    "reserve_attempt",
    "return_busy",
]
