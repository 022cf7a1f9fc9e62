"""Runtime state, one suite over both stores: whole or not at all, and gone in time (P2, P3).

Then what only one of them can suffer: bytes that are counted in the process, and a Redis that is cut off, restarted,
hung, full, or behind TLS and a password.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagegate.storage.objects import StoredAsset
from pagegate.storage.preview_artifacts import Again, ArtifactUnavailable, Content, PreviewArtifacts
from pagegate.storage.redis_state import RedisState, StateAddressInvalid
from pagegate.storage.runtime_state import MemoryState, RuntimeState, StateFull, StateUnavailable
from tests.redis_server import RedisServer

TIMEOUT_S = 1.0


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[RedisState]:
    redis_server.say("FLUSHALL")
    state = RedisState(redis_server.url, timeout_s=TIMEOUT_S)
    yield state
    await state.close()


@pytest.fixture(params=["memory", "redis"])
def state(request: pytest.FixtureRequest) -> RuntimeState:
    """Each store once."""
    if request.param == "memory":
        return MemoryState(max_bytes=1024 * 1024)
    found: RuntimeState = request.getfixturevalue("redis")
    return found


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(5):
        while not await true():
            await asyncio.sleep(0.01)


async def test_an_entry_is_read_as_it_was_written(state: RuntimeState) -> None:
    await state.put({"a": {"x": b"1", "": b"\x00\xff", "页": b""}}, ttl_s=60)
    assert await state.read("a", ["x", "", "页", "missing"]) == {"x": b"1", "": b"\x00\xff", "页": b""}


async def test_an_entry_without_the_wanted_fields_is_not_a_lost_one(state: RuntimeState) -> None:
    await state.put({"a": {"x": b"1"}, "empty": {}}, ttl_s=60)
    assert (await state.read("a", ["y"]), await state.read("empty", []), await state.read("b", ["y"])) == ({}, {}, None)


async def test_a_new_entry_replaces_the_whole_old_one(state: RuntimeState) -> None:
    await state.put({"a": {"x": b"1", "y": b"2"}}, ttl_s=60)
    await state.put({"a": {"x": b"3"}}, ttl_s=60)
    assert await state.read("a", ["x", "y"]) == {"x": b"3"}


async def test_deleting_takes_the_named_entries_and_no_other(state: RuntimeState) -> None:
    await state.put({"artifact:1": {"m": b"a"}, "artifact:12": {"m": b"b"}}, ttl_s=60)
    assert await state.delete(["artifact:1", "artifact:0"]) == 1
    assert await state.delete([]) == 0
    assert await state.read("artifact:1", ["m"]) is None
    assert await state.read("artifact:12", ["m"]) == {"m": b"b"}


async def test_an_entry_ends_with_its_time(state: RuntimeState) -> None:
    await state.put({"short": {"x": b"1"}, "long": {"x": b"2"}}, ttl_s=60)
    await state.put({"short": {"x": b"3"}}, ttl_s=0.05)

    async def gone() -> bool:
        return await state.read("short", ["x"]) is None

    await until(gone)
    assert await state.read("long", ["x"]) == {"x": b"2"}
    await state.sweep()
    assert await state.read("long", ["x"]) == {"x": b"2"}


async def test_it_says_how_full_it_is(state: RuntimeState) -> None:
    before = await state.usage()
    await state.put({"a": {"x": b"z" * 100_000}}, ttl_s=60)
    assert (await state.usage()).bytes_used >= before.bytes_used + 100_000


async def test_an_artifact_is_read_as_it_was_made_and_ends_with_a_delete(state: RuntimeState) -> None:
    artifacts = PreviewArtifacts(state)
    logo = StoredAsset("logo.svg", "image/svg+xml", "a" * 64, 12, "assets/1/a")
    modules = {"pages/页.vue": "页 \ud800", "components/A.vue": ""}
    artifact_id = await artifacts.create({"entry": "pages/页.vue"}, modules, {"logo.svg": logo})
    other_id = await artifacts.create({"entry": "b"}, {}, {})
    assert await artifacts.get_manifest(artifact_id) == {"entry": "pages/页.vue", "artifact_id": artifact_id}
    assert await artifacts.read_modules(artifact_id, [*modules, "pages/other.vue"]) == modules
    assert await artifacts.find_asset(artifact_id, "logo.svg") == logo
    assert await artifacts.find_asset(artifact_id, "other.svg") is None
    await artifacts.delete(artifact_id)
    for read in (artifacts.get_manifest(artifact_id), artifacts.read_modules(artifact_id, ["pages/页.vue"])):
        with pytest.raises(ArtifactUnavailable):
            await read
    assert (await artifacts.get_manifest(other_id))["entry"] == "b"


async def test_only_a_store_that_outlives_its_process_has_its_artifacts_made_again(state: RuntimeState) -> None:
    content = Content({"entry": "a", "artifact_id": "rt_1"}, {"pages/a.vue": "x"}, {})
    asked: list[str] = []

    async def again(artifact_id: str) -> Again | None:
        asked.append(artifact_id)
        return Again(content, ttl_s=30) if artifact_id == "rt_1" else None

    artifacts = PreviewArtifacts(state, again)
    with pytest.raises(ArtifactUnavailable):
        await artifacts.get_manifest("rt_2")
    if state.kind == "memory":
        with pytest.raises(ArtifactUnavailable):
            await artifacts.get_manifest("rt_1")
        assert asked == []
        return
    assert await artifacts.read_modules("rt_1", ["pages/a.vue", "pages/b.vue"]) == {"pages/a.vue": "x"}
    assert (await artifacts.get_manifest("rt_1"))["entry"] == "a"
    assert asked == ["rt_2", "rt_1"]


# -- in the process --------------------------------------------------------------------------------------------------


async def test_memory_refuses_a_write_over_the_limit_before_any_of_it_is_written() -> None:
    state = MemoryState(max_bytes=20)
    await state.put({"a": {"x": b"12345"}}, ttl_s=60)
    with pytest.raises(StateFull, match="RUNTIME_STATE_MEMORY_MAX_BYTES"):
        await state.put({"a": {"x": b"1"}, "b": {"x": b"x" * 30}}, ttl_s=60)
    assert (await state.read("a", ["x"]), await state.read("b", ["x"])) == ({"x": b"12345"}, None)
    assert state.bytes_used() == 7


async def test_memory_counts_an_expired_entry_until_the_sweep_and_never_shows_it() -> None:
    clock = Hand()
    state = MemoryState(max_bytes=100, clock=clock)
    await state.put({"a": {"x": b"1"}}, ttl_s=2)
    clock.ms += 1_999
    assert await state.read("a", ["x"]) == {"x": b"1"}
    clock.ms += 1
    assert await state.read("a", ["x"]) is None
    assert state.bytes_used() == 3
    assert await state.sweep() == 1
    assert state.bytes_used() == 0


async def test_memory_makes_room_of_expired_entries_for_a_new_one() -> None:
    clock = Hand()
    state = MemoryState(max_bytes=10, clock=clock)
    await state.put({"a": {"": b"x" * 9}}, ttl_s=1)
    clock.ms += 1_000
    await state.put({"b": {"": b"y" * 9}}, ttl_s=1)
    assert await state.read("b", [""]) == {"": b"y" * 9}


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xy"), st.binary(max_size=8)), min_size=1
        ),
        max_size=20,
    )
)
async def test_memory_says_the_bytes_it_holds(writes: list[dict[str, dict[str, bytes]]]) -> None:
    def size(entries: dict[str, dict[str, bytes]]) -> int:
        return sum(len(k) + sum(len(n) + len(v) for n, v in fields.items()) for k, fields in entries.items())

    state = MemoryState(max_bytes=24)
    held: dict[str, dict[str, bytes]] = {}
    for entries in writes:
        try:
            await state.put(entries, ttl_s=60)
        except StateFull:
            assert size(held | entries) > 24
        else:
            held |= entries
        assert state.bytes_used() == size(held) <= 24
        for key in "abcd":
            assert await state.read(key, ["x", "y"]) == held.get(key)


# -- Redis -----------------------------------------------------------------------------------------------------------


async def test_redis_that_dropped_its_connections_is_asked_again_at_once(
    redis: RedisState, redis_server: RedisServer
) -> None:
    await redis.put({"a": {"x": b"1"}}, ttl_s=60)
    await asyncio.gather(*(redis.read("a", ["x"]) for _ in range(8)))  # several connections in the pool
    for _ in range(3):
        redis_server.say("CLIENT", "KILL", "TYPE", "normal")
        assert await redis.read("a", ["x"]) == {"x": b"1"}
        redis_server.say("CLIENT", "KILL", "TYPE", "normal")
        await redis.put({"a": {"x": b"1"}}, ttl_s=60)


async def test_redis_that_was_restarted_is_empty_and_works(redis: RedisState, redis_server: RedisServer) -> None:
    await redis.put({"a": {"x": b"1"}}, ttl_s=60)
    redis_server.restart()
    assert await redis.read("a", ["x"]) is None
    await redis.put({"a": {"x": b"2"}}, ttl_s=60)
    assert await redis.read("a", ["x"]) == {"x": b"2"}


async def test_redis_that_is_away_is_unavailable_and_comes_back(redis: RedisState, redis_server: RedisServer) -> None:
    redis_server.stop()
    try:
        for call in (redis.read("a", []), redis.put({"a": {}}, 60), redis.delete(["a"]), redis.usage()):
            with pytest.raises(StateUnavailable):
                await call
    finally:
        redis_server.start()
    await redis.put({"a": {"x": b"1"}}, ttl_s=60)


async def test_redis_that_hangs_holds_nobody_for_longer_than_the_timeout(
    redis: RedisState, redis_server: RedisServer
) -> None:
    await redis.put({"a": {"x": b"old"}}, ttl_s=60)
    redis_server.hang()
    try:
        async with asyncio.timeout(20 * TIMEOUT_S):
            calls = [redis.read("a", ["x"]), redis.put({"b": {"x": b"1"}}, 60), redis.usage(), redis.delete(["c"])]
            ended = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        redis_server.go_on()
    assert [type(end) for end in ended] == [StateUnavailable] * 4
    # Answers that came too late are never taken for those of a later question.
    assert [await redis.read(key, ["x"]) for key in ("a", "a", "none")] == [{"x": b"old"}, {"x": b"old"}, None]


async def test_a_cancelled_caller_leaves_no_answer_behind_for_the_next(
    redis: RedisState, redis_server: RedisServer
) -> None:
    await redis.put({"a": {"x": b"a"}, "b": {"x": b"b"}}, ttl_s=60)
    redis_server.hang()
    asking = [asyncio.create_task(redis.read("a", ["x"])) for _ in range(4)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    redis_server.go_on()
    assert [await redis.read("b", ["x"]) for _ in range(8)] == [{"x": b"b"}] * 8


async def test_full_redis_refuses_a_write_whole() -> None:
    with RedisServer(maxmemory="3mb") as server:
        state = RedisState(server.url, timeout_s=TIMEOUT_S)
        artifacts = PreviewArtifacts(state)
        made: list[str] = []

        async def fill() -> None:
            for _ in range(40):
                made.append(await artifacts.create({"entry": "a"}, {"pages/a.vue": "x" * 200_000}, {}))

        with pytest.raises(StateFull):
            await fill()
        assert made
        for artifact_id in made:
            assert len((await artifacts.read_modules(artifact_id, ["pages/a.vue"]))["pages/a.vue"]) == 200_000
        assert server.say("DBSIZE").strip() == f":{len(made)}"
        for artifact_id in made:
            await artifacts.delete(artifact_id)

        async def room_again() -> bool:
            try:
                await artifacts.create({"entry": "a"}, {}, {})
            except StateFull:
                return False
            return True

        await until(room_again)
        await state.close()


async def test_redis_behind_tls_and_a_password() -> None:
    with RedisServer(password="s3cret", tls=True) as server:
        state = RedisState(server.url, timeout_s=TIMEOUT_S)
        await state.put({"a": {"x": b"1"}}, ttl_s=60)
        assert await state.read("a", ["x"]) == {"x": b"1"}
        await state.close()
        for wrong in (server.url.replace("s3cret", "wr0ng"), server.url.partition("?")[0]):
            refused = RedisState(wrong, timeout_s=TIMEOUT_S)
            with pytest.raises(StateUnavailable) as told:
                await refused.usage()
            assert "wr0ng" not in str(told.value)
            assert "s3cret" not in str(told.value)
            await refused.close()


@pytest.mark.parametrize("url", ["memory://lite", "http://x", "redis://host:notaport/0", "rediss://:s3cret@host:x"])
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(StateAddressInvalid) as refused:
        RedisState(url)
    assert "s3cret" not in str(refused.value)
