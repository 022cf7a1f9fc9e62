"""Compiled pages are kept in memory, for a time and up to a size (V8)."""

from pagegate.runtime.outputs import OutputStore


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_output_is_found_until_it_expires() -> None:
    clock = Clock()
    store = OutputStore(clock, ttl_s=300.0)
    output = store.put({"page.js": b"x"})
    clock.now_s += 299.9
    assert store.find(output.output_id) == output
    clock.now_s += 0.1
    assert store.find(output.output_id) is None
    assert store.size_bytes == 0


def test_deleted_output_is_gone_and_deleting_it_again_is_no_error() -> None:
    store = OutputStore(Clock())
    output = store.put({"page.js": b"x"})
    assert store.delete(output.output_id) is True
    assert store.delete(output.output_id) is False
    assert store.find(output.output_id) is None


def test_oldest_outputs_make_room_and_the_newest_stays_even_when_it_is_too_large() -> None:
    store = OutputStore(Clock(), bytes_max=10)
    first, second = store.put({"a": b"x" * 5}), store.put({"a": b"x" * 5})
    third = store.put({"a": b"x" * 5})
    assert [store.find(o.output_id) is not None for o in (first, second, third)] == [False, True, True]
    huge = store.put({"a": b"x" * 50})
    assert store.find(huge.output_id) is not None
    assert store.size_bytes == 50


def test_ids_differ_and_are_long_enough_not_to_be_guessed() -> None:
    store = OutputStore(Clock())
    ids = {store.put({}).output_id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(output_id) >= 24 for output_id in ids)
