"""In-process runtime state: all or nothing, bounded, and gone in time (P2, P3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagegate.storage.runtime_state import MemoryState, StateFull


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms


async def test_a_write_over_the_limit_is_refused_before_any_of_it_is_written() -> None:
    state = MemoryState(max_bytes=20)
    await state.put_many({"a": b"12345"}, ttl_s=60)
    with pytest.raises(StateFull, match="RUNTIME_STATE_MEMORY_MAX_BYTES"):
        await state.put_many({"a": b"1", "b": b"x" * 30}, ttl_s=60)
    assert await state.get_many(["a", "b"]) == {"a": b"12345"}
    assert state.bytes_used() == 6


async def test_a_value_is_gone_when_its_time_is_over_even_before_the_sweep() -> None:
    clock = Hand()
    state = MemoryState(max_bytes=100, clock=clock)
    await state.put_many({"a": b"1"}, ttl_s=2)
    clock.ms += 1_999
    assert await state.get("a") == b"1"
    clock.ms += 1
    assert await state.get("a") is None
    assert state.bytes_used() == 2
    assert await state.sweep() == 1
    assert state.bytes_used() == 0


async def test_expired_values_make_room_for_a_new_one() -> None:
    clock = Hand()
    state = MemoryState(max_bytes=10, clock=clock)
    await state.put_many({"a": b"x" * 9}, ttl_s=1)
    clock.ms += 1_000
    await state.put_many({"b": b"y" * 9}, ttl_s=1)
    assert await state.get("b") == b"y" * 9


async def test_deleting_a_prefix_takes_that_artifact_and_no_other() -> None:
    state = MemoryState(max_bytes=100)
    await state.put_many({"artifact:1:m": b"a", "artifact:1:x": b"b", "artifact:12:m": b"c"}, ttl_s=60)
    assert await state.delete_prefix("artifact:1:") == 2
    assert await state.get("artifact:12:m") == b"c"


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.binary(max_size=8), min_size=1), max_size=20))
async def test_the_bytes_it_says_are_the_bytes_it_holds(writes: list[dict[str, bytes]]) -> None:
    state = MemoryState(max_bytes=24)
    held: dict[str, bytes] = {}
    for items in writes:
        try:
            await state.put_many(items, ttl_s=60)
        except StateFull:
            assert sum(len(k) + len(v) for k, v in (held | items).items()) > 24
        else:
            held |= items
        assert state.bytes_used() == sum(len(k) + len(v) for k, v in held.items()) <= 24
        assert await state.get_many(list("abcd")) == held
