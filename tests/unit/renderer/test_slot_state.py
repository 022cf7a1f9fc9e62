"""What a render slot decides (R2-R5), over every sequence of events."""

from hypothesis import given
from hypothesis import strategies as st

from pagegate.actors.rendering.slot_state import (
    Asked,
    Cancel,
    Clean,
    Cleaned,
    Dropped,
    Ended,
    Event,
    Forget,
    KeepSpare,
    Refuse,
    Slot,
    SpareFailed,
    SpareReady,
    Start,
    decide,
)

IDS = st.sampled_from(["a", "b", "c"])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Asked, IDS, st.booleans()),
    st.builds(Ended, IDS, st.booleans()),
    st.builds(Cleaned),
    st.builds(SpareFailed),
    st.builds(SpareReady),
    st.builds(Dropped, IDS),
)


def after(*events: Event) -> Slot:
    slot = Slot()
    for event in events:
        slot, _ = decide(slot, event)
    return slot


@given(st.lists(EVENTS, max_size=30))
def test_one_attempt_at_a_time_whatever_happens(events: list[Event]) -> None:
    slot, in_hand = Slot(), 0
    for event in events:
        before = slot
        slot, effects = decide(slot, event)
        in_hand += sum(isinstance(effect, Start) for effect in effects)
        in_hand -= isinstance(event, Ended) and event.attempt_id == before.running
        assert in_hand in (0, 1)
        assert (slot.running is not None) == (slot.state == "running") == (in_hand == 1)
        assert slot.next is None or slot.state == "cleaning"


def test_a_free_slot_starts_and_a_taken_one_refuses() -> None:
    slot, effects = decide(Slot(), Asked("a"))
    assert (slot.state, effects) == ("running", [Start("a")])
    assert decide(slot, Asked("b")) == (slot, [Refuse("busy")])


def test_a_known_attempt_asked_again_starts_nothing() -> None:
    for slot in (after(Asked("a")), after(Asked("a"), Ended("a")), Slot()):
        assert decide(slot, Asked("a", known=True)) == (slot, [])


def test_one_attempt_is_accepted_while_the_last_browser_is_closed_and_starts_after_it() -> None:
    slot = after(Asked("a"), Ended("a"), Asked("b"))
    assert slot == Slot("cleaning", next="b")
    assert decide(slot, Asked("c")) == (slot, [Refuse("busy")])
    assert decide(slot, Cleaned()) == (Slot("running", running="b"), [Start("b")])


def test_a_cancelled_attempt_keeps_the_slot_until_it_has_really_ended() -> None:
    slot, effects = decide(after(Asked("a")), Dropped("a"))
    assert (slot.state, effects) == ("running", [Cancel()])
    slot, effects = decide(slot, Ended("a", cancelled=True))
    assert (slot.state, effects) == ("cleaning", [Clean(kill=True), KeepSpare()])


def test_dropping_the_accepted_one_frees_its_place_and_starts_nothing_later() -> None:
    slot, effects = decide(after(Asked("a"), Ended("a"), Asked("b")), Dropped("b"))
    assert effects == [Forget("b")]
    assert decide(slot, Cleaned()) == (Slot("idle"), [])


def test_a_late_end_of_an_old_attempt_changes_nothing() -> None:
    slot = after(Asked("a"), Ended("a"), Cleaned(), Asked("b"))
    assert decide(slot, Ended("a")) == (slot, [])


def test_a_slot_without_a_browser_is_broken_until_one_comes_up() -> None:
    slot, effects = decide(Slot(), SpareFailed())
    assert (slot.state, effects) == ("broken", [KeepSpare(later=True)])
    assert decide(slot, Asked("a")) == (slot, [Refuse("broken")])
    assert after(SpareFailed(), SpareReady()).state == "idle"


def test_a_spare_that_fails_beside_an_attempt_breaks_the_slot_only_after_it() -> None:
    slot = after(Asked("a"), SpareFailed())
    assert (slot.state, slot.running) == ("running", "a")
    assert decide(slot, Asked("b")) == (slot, [Refuse("busy")])
    slot = after(Asked("a"), SpareFailed(), Ended("a"))
    assert decide(slot, Asked("b")) == (slot, [Refuse("broken")])
    assert after(Asked("a"), SpareFailed(), Ended("a"), Cleaned()).state == "broken"
    assert after(Asked("a"), SpareFailed(), Ended("a"), SpareReady(), Cleaned()).state == "idle"
