"""The image generation job against a provider that is played over real HTTP: good days, bad ones, kills (A1, A10)."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from pagegate.actors.agents.tools import parse_tool_call
from pagegate.actors.images import provider
from pagegate.actors.images.provider import HttpImageProvider
from pagegate.actors.jobs import image_generation
from pagegate.actors.kernel import stop
from pagegate.actors.queues.kinds import End
from pagegate.actors.queues.queue import CancelHint, JobQueue
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import images, jobs, retries, runs, schema
from pagegate.storage.lease import LeaseLost
from pagegate.storage.objects import ObjectStoreUnavailable, asset_key, sha256_of
from tests.integration.images.conftest import PROMPT, Studio, generate, opened
from tests.integration.images.played_provider import KEY, SVG, bomb, picture

# --- good days ------------------------------------------------------------------------------------------------------


async def test_a_picture_becomes_a_file_of_the_project_and_its_call_is_told(studios: Studio) -> None:
    submitted = await studios.submit(generate("hero.png", size="1536x1024", quality="low", background="opaque"))
    end = await studios.work()
    assert isinstance(end, End)
    assert end.event == "finish"
    content = studios.api.content
    file = (await studios.files())["hero.png"]
    assert (file.number, file.stored.sha256, file.stored.media_type) == (1, sha256_of(content), "image/png")
    assert file.size is not None
    assert (file.size.width_px, file.size.height_px, file.size.ratio) == (48, 32, 1.5)
    assert file.stored.key == asset_key(studios.project_id, sha256_of(content))
    assert await studios.objects.get(file.stored.key) == content
    ((state, told),) = await studios.world.tasks(submitted.run_id)
    assert state == "succeeded"
    keys = ("success", "asset_name", "version", "import", "width_px", "height_px", "ratio")
    assert {key: told[key] for key in keys} == {
        "success": True,
        "asset_name": "hero.png",
        "version": 1,
        "import": "@assets/hero.png",
        "width_px": 48,
        "height_px": 32,
        "ratio": 1.5,
    }
    assert "@assets/hero.png" in told["next"]
    assert await studios.world.batch_state(submitted.run_id) == "ready"
    assert studios.api.asked == [
        {
            "model": "gpt-image-1",
            "n": 1,
            "prompt": PROMPT,
            "size": "1536x1024",
            "quality": "low",
            "background": "opaque",
        }
    ]
    kinds = [(event.kind, event.data.get("stage") or event.data.get("end")) for event in await studios.events(1)]
    assert kinds == [("run.submitted", None), ("tool.progress", "asking"), ("tool.ended", "finish")]
    assert studios.ended == [1]


async def test_a_format_is_asked_for_by_the_ending_and_the_file_never_lies_about_it(studio: Studio) -> None:
    studio.api.content = picture(form="WEBP")
    await studio.submit(generate("photo.jpg"))
    end = await studio.work()
    assert isinstance(end, End)
    assert studio.api.asked[0]["output_format"] == "jpeg"
    assert (end.result["asset_name"], end.result["media_type"]) == ("photo.webp", "image/webp")
    assert "photo.jpg" in end.result["summary"]
    assert list(await studio.files()) == ["photo.webp"]


async def test_a_picture_is_fetched_from_the_providers_own_origin(studio: Studio) -> None:
    studio.api.by_address = "own"
    await studio.submit()
    assert isinstance(await studio.work(), End)
    assert list(await studio.files()) == ["hero.png"]


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:1/p.png", "https://127.0.0.1:1/p.png", "https://[::1]/", "file:///etc/passwd", "https://u@x.y/"],
)
async def test_a_picture_is_fetched_from_no_place_inside(studio: Studio, address: str) -> None:
    studio.api.by_address = address
    await studio.submit()
    assert ((await studio.fail()).error or {})["code"] == "IMAGE_ADDRESS_NOT_ALLOWED"


async def test_a_redirect_of_a_pictures_address_is_not_followed(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_FETCH_AGAIN_S", 0.0)
    studio.api.by_address = f"{studio.api.base_url}/elsewhere"
    await studio.submit()
    assert (await studio.postpone()).code == "IMAGE_ANSWER_INVALID"


# --- bad days -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "code", "next_step"),
    [
        ("content", "IMAGE_PROMPT_REFUSED", "Change the prompt"),
        ("policy", "IMAGE_PROMPT_REFUSED", "Change the prompt"),
        ("forbidden", "AI_CREDENTIAL_REFUSED", "Do not change the prompt"),
        ("unknown model", "AI_MODEL_NOT_FOUND", "image_model"),
        ("bad size", "IMAGE_REQUEST_REFUSED", "size"),
        ("spent", "IMAGE_QUOTA_EXCEEDED", "account"),
        ("redirect", "IMAGE_REQUEST_REFUSED", "base_url"),
        ("endless", "IMAGE_TOO_LARGE", "smaller size"),
    ],
)
async def test_what_would_be_refused_again_ends_the_job_with_the_next_step(
    studio: Studio, trouble: str, code: str, next_step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "ANSWER_BYTES_MAX", 3 * 1024 * 1024)
    studio.api.script = [trouble]
    submitted = await studio.submit()
    end = await studio.fail()
    assert (end.error or {})["code"] == code
    ((state, told),) = await studio.world.tasks(submitted.run_id)
    assert (state, told["code"]) == ("failed", code)
    assert next_step in told["next"]
    assert KEY not in str(told)
    assert await studio.files() == {}
    assert studio.outcomes == ["refused"]


@pytest.mark.parametrize(
    ("trouble", "code", "wait_s", "still_sent"),
    [
        ("limited", "IMAGE_PROVIDER_RATE_LIMITED", 7.0, False),
        ("broken", "IMAGE_PROVIDER_UNAVAILABLE", 7.0, False),
        ("gateway", "IMAGE_PROVIDER_UNAVAILABLE", 7.0, True),
        ("cut", "IMAGE_PROVIDER_UNAVAILABLE", 0.0, True),
        ("no json", "IMAGE_ANSWER_INVALID", 0.0, True),
        ("no data", "IMAGE_ANSWER_INVALID", 0.0, True),
        ("bad base64", "IMAGE_ANSWER_INVALID", 0.0, True),
    ],
)
async def test_infrastructure_is_tried_again_with_the_same_key_and_charged_once(
    studio: Studio, trouble: str, code: str, wait_s: float, still_sent: bool
) -> None:
    studio.api.script = [trouble]
    (job_id,) = (await studio.submit()).job_ids
    later = await studio.postpone()
    assert (later.code, later.wait_s, later.counts) == (code, wait_s, True)
    assert "do not change it" in later.hint
    assert KEY not in str(later)
    assert ((await studio.job(job_id)).sent_at_ms is not None) is still_sent
    assert isinstance(await studio.work(), End)
    assert (len(studio.api.asked), len(set(studio.api.keys)), studio.api.charges) == (2, 1, 1)
    assert studio.outcomes == ["failed", "made"]


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"GIF89a", "IMAGE_ANSWER_INVALID"), (SVG, "IMAGE_ANSWER_INVALID"), (picture()[:-20], "IMAGE_ANSWER_INVALID")],
    ids=["a GIF", "an SVG", "half a picture"],
)
async def test_what_is_no_whole_picture_is_asked_for_again(studio: Studio, content: bytes, code: str) -> None:
    studio.api.content = content
    await studio.submit()
    assert (await studio.postpone()).code == code
    assert await studio.files() == {}


async def test_a_picture_of_too_many_pixels_is_never_decoded(studio: Studio) -> None:
    studio.api.content = bomb()
    await studio.submit()
    assert ((await studio.fail()).error or {})["code"] == "IMAGE_TOO_LARGE"


async def test_a_wrong_key_is_told_and_shown_nowhere(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened(sqlite_url, tmp_path) as studio:
        await studio.add_credential(key="sk-wrong")
        submitted = await studio.submit()
        end = await studio.fail()
        assert (end.error or {})["code"] == "AI_CREDENTIAL_REFUSED"
        said = str(await studio.events(submitted.run_id)) + str(end) + caplog.text
        assert "sk-wrong" not in said
        assert PROMPT not in said


async def test_without_a_credential_for_pictures_nobody_is_asked(sqlite_url: str, tmp_path: Path) -> None:
    async with opened(sqlite_url, tmp_path) as studio:
        await studio.add_credential(image_model=None)
        await studio.submit()
        end = await studio.fail()
        assert (end.error or {})["code"] == "AI_IMAGE_CREDENTIAL_MISSING"
        assert studio.api.asked == []


async def test_a_provider_that_is_silent_is_given_up_in_time(studio: Studio) -> None:
    studio.api.script = ["hangs"]
    studio.kind._provider = HttpImageProvider(timeout_s=0.3)
    await studio.submit()
    later = await studio.postpone()
    assert (later.code, "0.3 s" in later.message) == ("IMAGE_PROVIDER_UNAVAILABLE", True)
    await asyncio.wait_for(studio.api.left.wait(), 5)


async def test_a_provider_that_cannot_be_reached_made_nothing(sqlite_url: str, tmp_path: Path) -> None:
    async with opened(sqlite_url, tmp_path) as studio:
        studio.api.base_url, right = "http://127.0.0.1:1/v1", studio.api.base_url
        await studio.add_credential(image_keys_honoured=False)
        (job_id,) = (await studio.submit()).job_ids
        assert (await studio.postpone()).code == "IMAGE_PROVIDER_UNAVAILABLE"
        assert (await studio.job(job_id)).sent_to is None
        studio.api.base_url = right
        await studio.add_credential("another", image_keys_honoured=False)
        assert isinstance(await studio.work(), End)


# --- charged once ---------------------------------------------------------------------------------------------------


async def test_a_kill_between_answer_and_commit_asks_nobody_again(studios: Studio) -> None:
    await studios.submit()
    killed = await studios.claim()
    await studios.kind.execute(killed)  # answered and stored; its commit never comes
    await studios.lose(killed)
    studios.api.content = picture("blue")
    end = await studios.work()
    assert isinstance(end, End)
    assert (len(studios.api.asked), studios.api.charges) == (1, 1)
    assert (await studios.files())["hero.png"].stored.sha256 == sha256_of(picture("red"))


async def test_a_kill_before_the_answer_asks_again_with_the_same_key(studio: Studio) -> None:
    studio.api.script = ["hangs"]
    await studio.submit()
    killed = await studio.claim()
    work = asyncio.create_task(studio.kind.execute(killed))
    await asyncio.wait_for(studio.api.came.get(), 5)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await studio.lose(killed)
    assert isinstance(await studio.work(), End)
    assert (len(studio.api.asked), len(set(studio.api.keys)), studio.api.charges) == (2, 1, 1)


@pytest.mark.parametrize("trouble", ["hangs", "cut", "gateway", "no json"])
async def test_a_provider_that_honours_no_keys_is_not_asked_twice(
    sqlite_url: str, tmp_path: Path, trouble: str
) -> None:
    async with opened(sqlite_url, tmp_path) as studio:
        studio.api.honours_keys = False
        studio.api.script = [trouble]
        await studio.add_credential()
        (job_id,) = (await studio.submit()).job_ids
        if trouble == "hangs":
            killed = await studio.claim()
            work = asyncio.create_task(studio.kind.execute(killed))
            await asyncio.wait_for(studio.api.came.get(), 5)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await studio.lose(killed)
        end = await studio.fail()
        assert (end.error or {})["code"] == "IMAGE_MAY_BE_CHARGED"
        assert "call generate_image again" in end.result["next"]
        assert (len(studio.api.asked), await studio.files()) == (1, {})
        again = {"active_jobs_max": 9, "deadline_ms": None, "user_id": studio.world.user_id}
        await studio.world.write(retries.retry_failed_job, images.IMAGE_GENERATION, job_id, **again)
        assert isinstance(await studio.work(), End)  # a person's word
        assert len(studio.api.asked) == 2


async def test_an_error_that_says_nothing_was_made_is_tried_again_without_keys_too(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with opened(sqlite_url, tmp_path) as studio:
        studio.api.honours_keys = False
        studio.api.script = ["limited", "broken"]
        await studio.add_credential()
        await studio.submit()
        await studio.postpone()
        await studio.postpone()
        assert isinstance(await studio.work(), End)
        assert studio.api.charges == 1


async def test_a_key_that_the_provider_may_have_forgotten_is_not_sent_again(studios: Studio) -> None:
    studios.api.script = ["cut", "cut"]
    (job_id,) = (await studios.submit()).job_ids
    await studios.postpone()
    table = schema.image_generation_jobs
    async with studios.db.write() as tx:
        await tx.execute(update(table).values(sent_at_ms=table.c.sent_at_ms - 6 * 3600 * 1000))
    first = (await studios.job(job_id)).sent_at_ms
    await studios.postpone()
    assert (await studios.job(job_id)).sent_at_ms == first
    async with studios.db.write() as tx:
        await tx.execute(update(table).values(sent_at_ms=table.c.sent_at_ms - 6 * 3600 * 1000))
    assert ((await studios.fail()).error or {})["code"] == "IMAGE_MAY_BE_CHARGED"
    assert len(studios.api.asked) == 2


async def test_another_provider_is_not_asked_for_what_the_first_may_have_made(studio: Studio) -> None:
    studio.api.script = ["cut"]
    await studio.submit()
    await studio.postpone()
    await studio.add_credential("newer")
    assert ((await studio.fail()).error or {})["code"] == "IMAGE_MAY_BE_CHARGED"
    assert len(studio.api.asked) == 1


async def test_an_answer_is_kept_with_patience_when_the_store_fails(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_generation, "_STAGE_AGAIN_S", 0.0)
    put, failures = studio.objects.put, [1, 1]

    async def failing(key: str, content: bytes | Path) -> None:
        if failures:
            failures.pop()
            raise ObjectStoreUnavailable("writing failed")
        await put(key, content)

    monkeypatch.setattr(studio.objects, "put", failing)
    await studio.submit()
    assert isinstance(await studio.work(), End)
    assert studio.api.charges == 1


async def test_an_answer_that_cannot_be_stored_where_files_are_is_found_by_the_next_attempt(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = studio.objects.put

    async def failing(key: str, content: bytes | Path) -> None:
        if not key.startswith(images.STAGED):
            raise ObjectStoreUnavailable("writing failed")
        await put(key, content)

    with monkeypatch.context() as broken:
        broken.setattr(studio.objects, "put", failing)
        await studio.submit()
        assert (await studio.postpone()).code == "OBJECT_STORE_UNAVAILABLE"
    assert isinstance(await studio.work(), End)
    assert len(studio.api.asked) == 1


async def test_answers_that_wait_for_no_job_any_more_are_deleted_by_their_age(studio: Studio) -> None:
    await studio.submit()
    await studio.work()
    assert await studio.objects.delete_older(images.STAGED, 3600) == 0
    assert await studio.objects.delete_older(images.STAGED, -1) == 1
    (file,) = (await studio.files()).values()
    assert await studio.objects.get(file.stored.key) == studio.api.content


# --- names ----------------------------------------------------------------------------------------------------------


async def test_a_name_that_is_taken_is_refused_before_anybody_is_asked(studio: Studio) -> None:
    await studio.put_file("hero.png")
    submitted = await studio.submit(generate("hero.png", "a"), generate("new.png", "b"), generate("new.png", "c"))
    states = [state for state, _ in await studio.world.tasks(submitted.run_id)]
    assert (states, len(submitted.job_ids)) == (["refused", "pending", "refused"], 1)
    later = await studio.submit(generate("new.png", "d"))  # one is being made
    assert [(state, told["code"]) for state, told in await studio.world.tasks(later.run_id)] == [
        ("refused", "ASSET_NAME_TAKEN")
    ]
    await studio.put_file("new.png")
    assert ((await studio.fail()).error or {})["code"] == "ASSET_NAME_TAKEN"
    assert studio.api.asked == []


async def test_a_picture_whose_name_was_taken_meanwhile_gets_the_next_one(studios: Studio) -> None:
    await studios.submit()
    job = await studios.claim()
    settle = await studios.kind.execute(job)
    await studios.put_file("hero.png")
    await studios.put_file("hero-2.png")
    end = await studios.settle(job, settle)
    assert (end.event, end.result["asset_name"]) == ("finish", "hero-3.png")
    assert sorted(await studios.files()) == ["hero-2.png", "hero-3.png", "hero.png"]
    assert (await studios.files())["hero.png"].number == 1


# --- who may, and until when ----------------------------------------------------------------------------------------


async def test_who_may_not_write_any_more_is_neither_charged_nor_given_a_file(studio: Studio) -> None:
    world = studio.world
    await studio.submit(generate("a.png", "a"), generate("b.png", "b"))
    job = await studio.claim()
    settle = await studio.kind.execute(job)
    await world.write(lambda tx: tx.execute(update(schema.users).values(disabled_at_ms=1)))
    assert ((await studio.settle(job, settle)).error or {})["code"] == "PERMISSION_REVOKED"
    assert ((await studio.fail()).error or {})["code"] == "PERMISSION_REVOKED"
    assert (len(studio.api.asked), await studio.files()) == (1, {})


async def test_a_run_that_was_cancelled_gets_no_file(studio: Studio) -> None:
    submitted = await studio.submit()
    job = await studio.claim()
    settle = await studio.kind.execute(job)
    await studio.world.write(runs.cancel_run, submitted.run_id)
    assert (await studio.settle(job, settle)).event == "cancel"
    assert await studio.files() == {}


async def test_a_worker_that_lost_its_lease_writes_nothing(studios: Studio) -> None:
    await studios.submit()
    job = await studios.claim()
    settle = await studios.kind.execute(job)
    await studios.lose(job)
    with pytest.raises(LeaseLost):
        await studios.settle(job, settle)
    with pytest.raises(LeaseLost):
        await studios.kind.execute(job)  # nor does it ask anybody: noting the request is fenced
    assert (len(studios.api.asked), await studios.files()) == (1, {})


async def test_a_cancel_closes_the_connection_to_the_provider(studio: Studio) -> None:
    studio.api.script = ["hangs"]
    (job_id,) = (await studio.submit()).job_ids
    times = LeaseTimes(lease_s=60.0, heartbeat_s=15.0)
    worker = JobWorker.start(studio.db, studio.kind, times, 10)
    queue: Any = JobQueue.start(studio.db, studio.kind.name, "host:1:x", [worker], times, poll_s=0.05)
    await asyncio.wait_for(studio.api.came.get(), 10)
    assert await studio.world.write(jobs.request_cancel, studio.kind.name, job_id) == "requested"
    queue.tell(CancelHint(job_id))
    await asyncio.wait_for(studio.api.left.wait(), 10)
    async with asyncio.timeout(10):
        while not studio.ended:
            await asyncio.sleep(0.01)
    job = await studio.job(job_id)
    assert (job.status, job.error_code, await studio.files()) == ("cancelled", "JOB_CANCELLED", {})
    await stop(queue)
    await stop(worker)


async def test_a_wait_that_the_provider_asks_for_is_kept_and_one_past_the_deadline_ends_the_job(
    studio: Studio,
) -> None:
    studio.api.script = ["limited", "limited"]
    (job_id,) = (await studio.submit()).job_ids
    times = LeaseTimes(lease_s=60.0, heartbeat_s=15.0)
    worker = JobWorker.start(studio.db, studio.kind, times, 10)
    queue: Any = JobQueue.start(studio.db, studio.kind.name, "host:1:x", [worker], times, poll_s=0.05)
    async with asyncio.timeout(10):
        while not studio.ended:
            await asyncio.sleep(0.01)
    waiting = await studio.job(job_id)
    assert waiting.status == "pending"
    assert waiting.available_at - waiting.heartbeat_at >= 6_900
    table = schema.image_generation_jobs
    async with studio.db.write() as tx:
        await tx.execute(update(table).values(available_at=tx.now, deadline_at=tx.now + 5_000))
    async with asyncio.timeout(10):
        while len(studio.ended) < 2:
            await asyncio.sleep(0.01)
    failed = await studio.job(job_id)
    assert (failed.status, failed.error_code) == ("failed", "IMAGE_PROVIDER_RATE_LIMITED")
    assert "do not change it" in failed.error["hint"]
    await stop(queue)
    await stop(worker)


async def test_pages_of_a_step_wait_for_the_pictures_that_were_called_before_them(studios: Studio) -> None:
    page = {"title": "One", "source": "<template><p>one</p></template>"}
    before = parse_tool_call("p1", "create_project_page", {**page, "code": "before"})
    after = parse_tool_call("p2", "create_project_page", {**page, "code": "after"})
    await studios.submit(before, generate(), after)
    assert (await studios.world.claimed()).row.page_code == "before"
    assert await studios.world.claim() is None
    assert isinstance(await studios.work(), End)
    late = await studios.world.claimed()
    assert late.row.page_code == "after"
    assert await studios.world.read(images.list_refused_of_step, late.row.batch_id, late.row.position) == []


async def test_a_page_behind_a_picture_that_was_refused_is_told_of_that_one(studios: Studio) -> None:
    page = parse_tool_call("p", "create_project_page", {"title": "One", "source": "<template/>", "code": "after"})
    await studios.submit(generate("hero.png"), page, generate("late.png", "later"))
    hero = await studios.claim()
    await studios.world.write(jobs.finish_job, hero.lease, "fail", error={"code": "X", "message": "", "hint": ""})
    late = await studios.world.claimed()
    assert await studios.world.read(images.list_refused_of_step, late.row.batch_id, late.row.position) == ["hero.png"]
    assert await studios.world.read(images.list_refused_of_step, late.row.batch_id, 0) == []


async def test_a_retry_of_a_job_whose_workers_were_lost_finds_the_answer_that_was_paid_for(studio: Studio) -> None:
    (job_id,) = (await studio.submit()).job_ids
    for _ in range(3):
        job = await studio.claim()
        await studio.kind.execute(job)
        await studio.lose(job)
    job = await studio.claim()
    await studio.world.expire(job.lease)
    assert await studio.world.write(jobs.rescue_job, studio.kind.name, job_id, job.lease.fence, 3) == "failed"
    again = {"active_jobs_max": 9, "deadline_ms": None, "user_id": studio.world.user_id}
    retried = await studio.world.write(retries.retry_failed_job, studio.kind.name, job_id, **again)
    assert (await studio.job(retried.job_id)).sent_at_ms is None
    assert isinstance(await studio.work(), End)
    assert (len(studio.api.asked), studio.api.charges) == (1, 1)
