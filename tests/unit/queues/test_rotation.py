"""The rotation's two bounds, over any mix of arrivals."""

from hypothesis import given
from hypothesis import strategies as st

from pagegate.actors.queues.rotation import Head, Rotation, pick

workspaces = st.integers(min_value=1, max_value=5)
classes = st.sampled_from(["interactive", "background"])
arrivals = st.lists(st.tuples(classes, workspaces), max_size=6)


def heads_of(waiting: list[tuple[str, int, int]]) -> list[Head]:
    """The oldest entry of each workspace in each class."""
    oldest: dict[tuple[str, int], int] = {}
    for klass, workspace, entry in waiting:
        oldest.setdefault((klass, workspace), entry)
    return [Head(klass, workspace, entry) for (klass, workspace), entry in oldest.items()]  # type: ignore[arg-type]


@given(st.lists(arrivals, min_size=1, max_size=60))
def test_every_head_is_served_within_its_bound(rounds: list[list[tuple[str, int]]]) -> None:
    rotation, waiting, entry = Rotation(), [], 0
    background_waits = 0
    passed_over: dict[tuple[str, int], set[int]] = {}
    for arriving in rounds:
        for klass, workspace in arriving:
            waiting.append((klass, workspace, entry := entry + 1))
        heads = heads_of(waiting)
        head, rotation = pick(rotation, heads)
        if head is None:
            assert not waiting
            continue
        waiting.remove((head.klass, head.workspace_id, head.entry_id))
        if head.klass == "background":
            background_waits = 0
        elif any(other.klass == "background" for other in heads):
            background_waits += 1
        assert background_waits <= 3, "an eligible background head waited for a fifth pick"
        for other in heads:
            if other.klass != head.klass or other == head:
                continue
            served_before = passed_over.setdefault((other.klass, other.workspace_id), set())
            assert head.workspace_id not in served_before, "a workspace was served twice while another waited"
            served_before.add(head.workspace_id)
        passed_over.pop((head.klass, head.workspace_id), None)


def test_three_interactive_then_one_background() -> None:
    rotation, served = Rotation(), []
    for entry in range(8):
        head, rotation = pick(rotation, [Head("interactive", 1, entry), Head("background", 1, 100)])
        assert head is not None
        served.append(head.klass[0])
    assert "".join(served) == "iiibiiib"


def test_a_small_workspace_is_served_before_a_large_one_is_served_twice() -> None:
    first, rotation = pick(Rotation(), [Head("interactive", 1, 1)])
    second, _ = pick(rotation, [Head("interactive", 1, 2), Head("interactive", 2, 200)])
    assert first is not None
    assert first.workspace_id == 1
    assert second is not None
    assert second.workspace_id == 2


def test_nothing_waiting_changes_nothing() -> None:
    rotation = Rotation(interactive_in_a_row=2)
    assert pick(rotation, []) == (None, rotation)
