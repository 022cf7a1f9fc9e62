"""Whose render is next, over any mix of arrivals, delays, cancels, ends and limits (R3; CASES 18, 19).

The coordinator's own loop, without its database: `heads_of` says who may run, `pick` says who does, and a reservation
is refused when a workspace is at its limit, which the coordinator learns only by trying.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from pagegate.actors.queues.rotation import Class, Head, Rotation, pick
from pagegate.actors.rendering.coordinator import heads_of
from pagegate.storage.renders import PendingRequest

Event = tuple[Literal["arrive"], Class, int, int] | tuple[Literal["cancel", "end", "pass"], int]

classes = st.sampled_from(["interactive", "background"])
arrivals = st.tuples(st.just("arrive"), classes, st.integers(1, 4), st.sampled_from([0, 0, 0, 5]))
others = st.tuples(st.sampled_from(["cancel", "end", "end", "pass"]), st.integers(0, 30))
events = st.lists(st.one_of(arrivals, arrivals, others), max_size=120)


@dataclass
class Coordinator:
    """What the actor keeps and does, step by step; checked as it goes."""

    workers: int
    workspace_max: int
    rotation: Rotation = field(default_factory=Rotation)
    pending: list[PendingRequest] = field(default_factory=list)
    running: list[PendingRequest] = field(default_factory=list)
    now: int = 0
    made: int = 0
    background_waits: int = 0
    passed_over: dict[tuple[str, int], set[int]] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        match event:
            case "arrive", klass, workspace, delay:
                self.made += 1
                self.pending.append(PendingRequest(self.made, klass, workspace, self.now + delay, None, self.now))
            case "cancel", place if self.pending:
                self.pending.pop(place % len(self.pending))
            case "end", place if self.running:
                self.running.pop(place % len(self.running))
            case "pass", seconds:
                self.now += seconds
        self.dispatch()

    def dispatch(self) -> None:
        refused: set[int] = set()
        while len(self.running) < self.workers:
            head, rotation = pick(self.rotation, heads_of(self.pending, self.now, refused))
            if head is None:
                assert not self.eligible(), "somebody may run and nobody was picked"
                return
            if not self.has_room(head.workspace_id):
                refused.add(head.entry_id)
                continue
            self.judge(head)
            self.rotation = rotation
            (started,) = [request for request in self.pending if request.id == head.entry_id]
            self.pending.remove(started)
            self.running.append(started)

    def has_room(self, workspace: int) -> bool:
        return sum(request.workspace_id == workspace for request in self.running) < self.workspace_max

    def eligible(self) -> set[tuple[str, int]]:
        """(class, workspace) of everybody who may run now, seen without the coordinator's eyes."""
        return {
            (request.klass, request.workspace_id)
            for request in self.pending
            if request.available_at <= self.now and self.has_room(request.workspace_id)
        }

    def judge(self, head: Head) -> None:
        eligible = self.eligible()
        assert (head.klass, head.workspace_id) in eligible
        oldest = min(
            request.id
            for request in self.pending
            if (request.klass, request.workspace_id) == (head.klass, head.workspace_id)
            and request.available_at <= self.now
        )
        assert head.entry_id == oldest, "a workspace's later request went first"
        if head.klass == "background" or not any(klass == "background" for klass, _ in eligible):
            self.background_waits = 0
        else:
            self.background_waits += 1
        assert self.background_waits <= 3, "background work waited for a fifth pick"
        # Who is passed over while eligible is counted; who was not eligible begins anew.
        self.passed_over = {who: served for who, served in self.passed_over.items() if who in eligible}
        for who in eligible - {(head.klass, head.workspace_id)}:
            if who[0] == head.klass:
                served = self.passed_over.setdefault(who, set())
                assert head.workspace_id not in served, "a workspace was served twice while another waited"
                served.add(head.workspace_id)
        self.passed_over.pop((head.klass, head.workspace_id), None)


@settings(max_examples=300)
@given(events, st.integers(1, 4), st.integers(1, 3))
def test_nobody_who_may_run_waits_longer_than_the_bound(story: list[Event], workers: int, workspace_max: int) -> None:
    coordinator = Coordinator(workers, workspace_max)
    for event in story:
        coordinator.hear(event)


def test_a_workspace_at_its_limit_hides_nobody() -> None:
    """CASE 18: A has 200 requests and is at its limit; B's single one takes the next slot."""
    coordinator = Coordinator(workers=2, workspace_max=1)
    for _ in range(200):
        coordinator.hear(("arrive", "interactive", 1, 0))
    assert [request.workspace_id for request in coordinator.running] == [1]
    coordinator.hear(("arrive", "interactive", 2, 0))
    assert [request.workspace_id for request in coordinator.running] == [1, 2]


def test_a_request_that_must_wait_lets_the_next_of_its_workspace_go_first() -> None:
    later = PendingRequest(1, "interactive", 1, 5, None, 0)
    assert heads_of([later, replace(later, id=2, available_at=0)], 0, set()) == [Head("interactive", 1, 2)]
