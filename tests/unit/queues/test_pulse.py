"""When a process says that it is not ready, from the news of its queues and workers (CASE 6)."""

from pagegate.actors.queues.pulse import Pulse


def test_no_news_is_good_news() -> None:
    assert list(Pulse().troubles()) == []


def test_a_queue_that_cannot_claim_is_trouble_until_it_can() -> None:
    pulse = Pulse()
    pulse.claimed("pages", ok=False)
    assert pulse.troubles() == ["jobs of pages cannot be claimed"]
    pulse.claimed("pictures", ok=True)
    assert pulse.troubles() == ["jobs of pages cannot be claimed"]
    pulse.claimed("pages", ok=True)
    assert pulse.troubles() == []


def test_failing_heartbeats_are_trouble_until_one_works_whatever_other_workers_claim() -> None:
    pulse = Pulse()
    pulse.beat("w1", ok=False)
    pulse.claimed("pages", ok=True)
    assert pulse.troubles() == ["heartbeats of running jobs fail"]
    pulse.beat("w2", ok=True)
    assert pulse.troubles() == ["heartbeats of running jobs fail"]
    pulse.beat("w1", ok=True)
    assert pulse.troubles() == []


def test_a_worker_whose_job_is_over_is_doubted_until_a_write_works() -> None:
    pulse = Pulse()
    pulse.beat("w1", ok=False)
    pulse.rested("w1")
    assert pulse.troubles() == ["heartbeats of running jobs fail"]
    pulse.claimed("pages", ok=False)
    assert len(pulse.troubles()) == 2
    pulse.claimed("pages", ok=True)
    assert pulse.troubles() == []


def test_a_worker_that_was_fine_rests_without_doubt() -> None:
    pulse = Pulse()
    pulse.beat("w1", ok=True)
    pulse.rested("w1")
    assert pulse.troubles() == []
