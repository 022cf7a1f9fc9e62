"""What a worker decides, as a pure function: no clock, no database."""

import asyncio
from typing import Any, cast

import pytest

from pagegate.actors.kernel import ChildEnded
from pagegate.actors.queues.kinds import TryLater
from pagegate.actors.queues.worker_state import (
    CancelJob,
    Execute,
    Executed,
    Idle,
    LeaseTimes,
    ReleaseJob,
    Renew,
    RenewalDue,
    Renewed,
    Report,
    RunJob,
    StopDue,
    StopWork,
    WatchLease,
    Working,
    Write,
    Written,
    decide,
)
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import Lease, LeaseLost

TIMES = LeaseTimes(lease_s=60.0, heartbeat_s=15.0)
JOB = ClaimedJob(Lease("ai_page_mutation_jobs", 7, "me:0", 1, 0), cast(Any, None))
QUEUE = cast(Any, "the queue")
CANCELLED = ChildEnded[None](error=asyncio.CancelledError())


def working(**changes: Any) -> Working:
    return Working(**{"job": JOB, "queue": QUEUE, "stop_at_s": 155.0, **changes})


def executed(error: BaseException | None = None) -> Executed:
    return Executed(ChildEnded(error=error))


def renewed(sent_s: float, value: bool = False, error: BaseException | None = None, job: ClaimedJob = JOB) -> Renewed:
    return Renewed(job.lease, sent_s, ChildEnded(value=value, error=error))


def test_the_deadline_counts_from_before_the_claim_was_sent_and_leaves_a_margin() -> None:
    state, effects = decide(Idle(), RunJob(JOB, sent_s=100.0, queue=QUEUE), 103.0, TIMES)
    assert state == working(stop_at_s=155.0)
    assert effects == [Execute(JOB), WatchLease(155.0)]


def test_a_renewal_moves_the_deadline_from_before_it_was_sent() -> None:
    state, effects = decide(working(), RenewalDue(), 115.0, TIMES)
    assert effects == [Renew(JOB, 115.0)]
    state, effects = decide(state, renewed(115.0), 120.0, TIMES)
    assert isinstance(state, Working)
    assert state.stop_at_s == 170.0
    assert not state.renewing
    assert effects == []


def test_one_renewal_at_a_time() -> None:
    state, effects = decide(working(renewing=True), RenewalDue(), 130.0, TIMES)
    assert state == working(renewing=True)
    assert effects == []


def test_renewals_that_fail_let_the_deadline_stand_and_stop_the_work_before_the_lease_ends() -> None:
    state, effects = decide(working(renewing=True), renewed(115.0, error=OSError()), 120.0, TIMES)
    assert state == working()
    state, effects = decide(state, StopDue(), 155.0, TIMES)
    assert effects == [StopWork()]
    state, effects = decide(state, executed(asyncio.CancelledError()), 155.1, TIMES)
    assert state == Idle()
    assert effects == [Report(JOB, QUEUE)], "nothing is written without a lease"


def test_a_deadline_that_was_moved_is_watched_again() -> None:
    _, effects = decide(working(stop_at_s=170.0), StopDue(), 155.0, TIMES)
    assert effects == [WatchLease(170.0)]


def test_a_lost_lease_stops_the_work_and_writes_nothing_even_if_it_failed_by_itself() -> None:
    state, effects = decide(working(renewing=True), renewed(115.0, error=LeaseLost()), 120.0, TIMES)
    assert effects == [StopWork()]
    state, effects = decide(state, executed(TryLater("RUNTIME_UNREACHABLE", "")), 121.0, TIMES)
    assert (state, effects) == (Idle(), [Report(JOB, QUEUE)])


@pytest.mark.parametrize("heard", [CancelJob(7), renewed(115.0, value=True)])
def test_a_cancel_stops_the_work_and_is_written(heard: Any) -> None:
    state, effects = decide(working(renewing=True), heard, 120.0, TIMES)
    assert effects == [StopWork()]
    state, effects = decide(state, Executed(CANCELLED), 121.0, TIMES)
    assert effects == [Write(JOB, "cancel")]
    state, effects = decide(state, Written(ChildEnded()), 122.0, TIMES)
    assert (state, effects) == (Idle(), [Report(JOB, QUEUE)])


def test_a_cancel_for_another_job_is_not_ours() -> None:
    assert decide(working(), CancelJob(8), 120.0, TIMES) == (working(), [])


def test_a_commit_that_won_against_the_cancel_stands() -> None:
    state, _ = decide(working(), CancelJob(7), 120.0, TIMES)
    assert decide(state, executed(), 121.0, TIMES) == (Idle(), [Report(JOB, QUEUE)])


def test_a_release_gives_the_job_back() -> None:
    state, effects = decide(working(), ReleaseJob(), 120.0, TIMES)
    assert effects == [StopWork()]
    _, effects = decide(state, Executed(CANCELLED), 121.0, TIMES)
    assert effects == [Write(JOB, "release")]


def test_infrastructure_and_bugs_are_tried_later() -> None:
    error = TryLater("RUNTIME_UNREACHABLE", "nobody there")
    _, effects = decide(working(), executed(error), 120.0, TIMES)
    assert effects == [Write(JOB, "retry", error)]
    _, effects = decide(working(), executed(ZeroDivisionError()), 120.0, TIMES)
    (write,) = effects
    assert isinstance(write, Write)
    assert write.error is not None
    assert write.error.code == "JOB_CRASHED"
    assert write.error.counts


def test_a_database_that_does_not_answer_is_no_bug_of_the_job() -> None:
    _, effects = decide(working(), executed(DatabaseUnavailable("cut off")), 120.0, TIMES)
    (write,) = effects
    assert isinstance(write, Write)
    assert write.error is not None
    assert (write.error.code, write.error.counts) == ("DATABASE_UNAVAILABLE", True)


def test_only_the_end_of_the_lease_interrupts_the_last_write() -> None:
    writing = working(phase="write")
    state, effects = decide(writing, ReleaseJob(), 120.0, TIMES)
    assert effects == []
    state, effects = decide(state, StopDue(), 155.0, TIMES)
    assert effects == [StopWork()]
    state, effects = decide(state, Written(CANCELLED), 155.1, TIMES)
    assert (state, effects) == (Idle(), [Report(JOB, QUEUE)])


def test_late_news_about_a_job_that_is_over_change_nothing() -> None:
    for late in (renewed(1.0), executed(), StopDue(), RenewalDue(), CancelJob(7), ReleaseJob()):
        assert decide(Idle(), late, 200.0, TIMES) == (Idle(), [])


@pytest.mark.parametrize("answer", [{"error": LeaseLost()}, {"value": True}, {"value": False}])
def test_a_late_answer_about_the_job_before_does_nothing_to_the_next_one(answer: dict[str, Any]) -> None:
    """A heartbeat that was under way when its job ended finds no lease any more: that is no news about the next job."""
    before = ClaimedJob(Lease("ai_page_mutation_jobs", 6, "me:0", 1, 0), cast(Any, None))
    state = working(renewing=True)
    assert decide(state, renewed(150.0, job=before, **answer), 151.0, TIMES) == (state, [])
    again = ClaimedJob(Lease("ai_page_mutation_jobs", 7, "me:0", 2, 0), cast(Any, None))
    state = working(job=again)
    assert decide(state, renewed(150.0, **answer), 151.0, TIMES) == (state, [])
