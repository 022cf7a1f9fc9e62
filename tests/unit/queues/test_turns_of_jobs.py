"""Turns of workspaces in a lane of jobs, over any mix of arrivals and cancels (V1, CASE 18)."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from pagegate.actors.queues.rotation import Head, Rotation, after, deal

SMALL, LARGE = 1, 2


class Lane:
    """What `JobQueue` and its statements do, in memory: jobs by workspace, oldest first."""

    def __init__(self) -> None:
        self.waiting: dict[int, deque[int]] = {}
        self.rotation = Rotation()
        self.ids = 0

    def submit(self, workspace_id: int) -> int:
        self.ids += 1
        self.waiting.setdefault(workspace_id, deque()).append(self.ids)
        return self.ids

    def cancel_oldest(self, workspace_id: int) -> None:
        if self.waiting.get(workspace_id):
            self.waiting[workspace_id].popleft()

    def claim(self, count: int) -> list[tuple[int, int]]:
        """(workspace, job) of each claimed job, in the order of the turns."""
        heads = [Head("interactive", who, jobs[0]) for who, jobs in self.waiting.items() if jobs]
        claimed: list[tuple[int, int]] = []
        while heads and len(claimed) < count:
            turns = deal(self.rotation, heads, count - len(claimed))
            found: dict[int, int] = {}
            for workspace_id in turns:
                if self.waiting[workspace_id]:
                    claimed.append((workspace_id, self.waiting[workspace_id].popleft()))
                    found[workspace_id] = found.get(workspace_id, 0) + 1
            self.rotation = after(self.rotation, "interactive", turns, found)
            heads = [head for head in heads if self.waiting[head.workspace_id]]
        return claimed


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 6)),
        st.tuples(st.just("cancel"), st.integers(1, 6)),
        st.tuples(st.just("claim"), st.integers(1, 4)),
    ),
    max_size=120,
)


@given(EVENTS)
@settings(max_examples=200)
def test_between_two_jobs_of_others_a_waiting_workspace_gets_one(events: list[tuple[str, int]]) -> None:
    """While a workspace waits, no other is served twice before it."""
    lane = Lane()
    served_meanwhile: dict[int, list[int]] = {}
    for what, number in events:
        match what:
            case "submit":
                lane.submit(number)
                served_meanwhile.setdefault(number, [])
            case "cancel":
                lane.cancel_oldest(number)
                if not lane.waiting.get(number):
                    served_meanwhile.pop(number, None)
            case "claim":
                for workspace_id, _ in lane.claim(number):
                    served_meanwhile.pop(workspace_id, None)
                    for waits, others in served_meanwhile.items():
                        others.append(workspace_id)
                        assert others.count(workspace_id) <= 1, f"{workspace_id} twice before {waits}"
                    if lane.waiting[workspace_id]:
                        served_meanwhile[workspace_id] = []


@given(before=st.integers(1, 50), workers=st.integers(1, 5))
def test_a_small_workspace_behind_a_large_one_gets_the_next_worker(before: int, workers: int) -> None:
    lane = Lane()
    for _ in range(200):
        lane.submit(LARGE)
    for _ in range(before):
        lane.claim(1)
    small = lane.submit(SMALL)
    assert lane.claim(workers)[0] == (SMALL, small)


@given(EVENTS, st.integers(1, 4))
def test_no_worker_stays_free_while_a_job_waits(events: list[tuple[str, int]], workers: int) -> None:
    lane = Lane()
    for what, number in events:
        if what == "submit":
            lane.submit(number)
    waiting = lane.ids
    claimed: list[int] = []
    while jobs := lane.claim(workers):
        claimed += [job for _, job in jobs]
        assert len(jobs) == workers or len(claimed) == waiting
    assert sorted(claimed) == list(range(1, waiting + 1))
