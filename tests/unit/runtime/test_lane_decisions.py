"""The check lane's decisions, without actors: who is let in, who starts, who leaves (V1)."""

from hypothesis import given
from hypothesis import strategies as st

from pagegate.actors.compiling.lane import LaneState, arrived, freed, left, next_start


def filled(state: LaneState, *entries: tuple[int, bool]) -> LaneState:
    for entry_id, background in entries:
        after = arrived(state, entry_id, background=background)
        assert after is not None
        state = after
    return state


def test_free_slot_is_taken_at_once_and_a_full_room_refuses() -> None:
    state = filled(LaneState.empty(size_max=2, slots=1), (1, False))
    start = next_start(state)
    assert start is not None
    state, entry_id, slot = start
    assert (entry_id, slot, state.waiting, state.free) == (1, 0, (), ())
    state = filled(state, (2, False), (3, False))
    assert arrived(state, 4, background=False) is None
    assert next_start(state) is None


def test_room_of_no_size_still_lets_in_who_can_start() -> None:
    state = LaneState.empty(size_max=0, slots=1)
    assert arrived(state, 1, background=False) is not None


def test_who_left_is_not_started() -> None:
    state = left(filled(LaneState.empty(size_max=4, slots=1), (1, False), (2, False)), 1)
    start = next_start(state)
    assert start is not None
    assert start[1] == 2
    assert left(state, 99) == state


def test_slot_is_free_again_after_its_task() -> None:
    start = next_start(filled(LaneState.empty(size_max=4, slots=1), (1, False), (2, False)))
    assert start is not None
    state, _, slot = start
    assert next_start(state) is None
    again = next_start(freed(state, slot))
    assert again is not None
    assert again[1] == 2


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 3))
def test_everyone_is_started_once_and_background_waits_for_at_most_three(backgrounds: list[bool], slots: int) -> None:
    entries = list(enumerate(backgrounds))
    state = filled(LaneState.empty(size_max=len(entries), slots=slots), *entries)
    started: list[int] = []
    while (start := next_start(state)) is not None:
        state, entry_id, slot = start
        started.append(entry_id)
        state = freed(state, slot)
    assert sorted(started) == list(range(len(entries)))
    checks_in_a_row = 0
    for place, entry_id in enumerate(started):
        background_waits = any(backgrounds[later] for later in started[place:])
        checks_in_a_row = 0 if backgrounds[entry_id] else checks_in_a_row + 1
        assert checks_in_a_row <= 3 or not background_waits
        if backgrounds[entry_id]:
            assert entry_id == min(later for later in started[place:] if backgrounds[later])
