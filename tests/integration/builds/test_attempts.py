"""A Runtime that behaves badly, or is lost: each its own clear answer, nothing half promoted (B1-B4, X4, case 50)."""

import asyncio
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import update

from pagegate.actors import kernel
from pagegate.actors.jobs.project_build import ProjectBuilds, forget_objects, sweep_builds
from pagegate.storage import builds, schema
from tests.integration.builds.conftest import Stage
from tests.integration.builds.played import claim, releases, zipped

pytestmark = pytest.mark.asyncio(loop_scope="module")


def link() -> tuple[zipfile.ZipInfo, bytes]:
    entry = zipfile.ZipInfo("link")
    entry.external_attr = 0o120777 << 16
    return entry, b"/etc/passwd"


async def test_an_archive_that_leads_out_links_or_explodes_is_refused(alone: Stage) -> None:
    played = await claim(alone)
    bad = [
        b"no zip at all",
        zipped({"../evil.html": b""}),
        zipped({"/etc/evil": b""}),
        zipped({"a\\b": b""}),
        zipped({"C:/evil": b""}),
        zipped(None, link()),
        zipped({"bomb": bytes(100 * 1024 * 1024)}),
    ]
    for content in bad:
        assert len(content) <= 4 * played.limit
        status, refusal = await played.upload(content)
        wanted = "ARTIFACT_TOO_LARGE" if len(content) > played.limit else "ARCHIVE_REFUSED"
        assert (status in {413, 422}, refusal["code"]) == (True, f"PROJECT_BUILD_{wanted}"), content[:20]
    assert (await releases(alone), alone.left_objects()) == (0, [])
    assert (await played.upload(zipped()))[0] == 200  # the attempt is still its own


async def test_one_byte_over_the_limit_is_refused_and_the_limit_itself_is_taken(alone: Stage) -> None:
    played = await claim(alone)
    room = played.limit - len(zipped(None, (zipfile.ZipInfo("fill"), b"")))
    exact = zipped(None, (zipfile.ZipInfo("fill"), bytes(room)))
    over = zipped(None, (zipfile.ZipInfo("fill"), bytes(room + 1)))
    assert (len(exact), len(over)) == (played.limit, played.limit + 1)

    async def streamed() -> AsyncIterator[bytes]:  # nothing tells the size beforehand
        for start in range(0, len(over), 65536):
            yield over[start : start + 65536]

    for content in (over, streamed()):
        status, refusal = await played.upload(content)
        assert (status, refusal["code"]) == (413, "PROJECT_BUILD_ARTIFACT_TOO_LARGE")
    assert alone.left_objects() == []
    assert (await played.upload(exact))[0] == 200


async def test_a_second_upload_and_a_token_for_another_job_are_refused(alone: Stage) -> None:
    first, second = await claim(alone), await claim(alone)
    status, refusal = await first.upload(zipped(), token=second.token)
    assert (status, refusal["code"]) == (401, "TICKET_INVALID")
    assert (await first.upload(zipped()))[1] == {"release": 1}
    status, refusal = await first.upload(zipped({"b.html": b"other"}))
    assert (status, refusal["code"]) == (409, "BUILD_ATTEMPT_OVER")
    assert (await first.ask("POST", "/heartbeat", json={}))[0] == 409
    assert await releases(alone) == 1
    assert (await second.ask("GET", "/snapshot"))[1]["pages"][0]["code"] == "one"


async def test_a_cancelled_build_is_told_to_stop_and_its_upload_is_not_promoted(alone: Stage) -> None:
    played = await claim(alone)
    await alone.call("DELETE", f"/build-jobs/{played.job_id}")
    assert (await played.ask("POST", "/heartbeat", json={"log": ["compiling"]}))[1] == {"cancel": True}
    status, refusal = await played.upload(zipped())
    assert (status, refusal["code"]) == (409, "BUILD_ATTEMPT_OVER")
    assert (await releases(alone), alone.left_objects()) == (0, [])
    gone = {"code": "PROJECT_BUILD_CANCELLED", "error": {"code": "x", "message": "y"}, "log": ["stopped"]}
    await played.ask("POST", "/failure", json=gone)
    _, job = await alone.call("GET", f"/build-jobs/{played.job_id}")
    assert (job["status"], job["error"]["code"], job["log"]) == ("cancelled", "JOB_CANCELLED", ["stopped"])


async def test_an_upload_that_is_cut_off_leaves_nothing(alone: Stage) -> None:
    played = await claim(alone)
    sent = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield zipped()[:100]
        sent.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(played.upload(half()))
    await sent.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await releases(alone), alone.left_objects()) == (0, [])
    assert (await played.upload(zipped()))[0] == 200


async def test_an_upload_whose_lease_is_lost_is_stopped_at_once_and_leaves_nothing(alone: Stage) -> None:
    played = await claim(alone)
    sent = asyncio.Event()

    async def held_back() -> AsyncIterator[bytes]:
        yield bytes(500_000)
        sent.set()
        await asyncio.Event().wait()

    uploading = asyncio.create_task(played.upload(held_back()))
    await sent.wait()
    async with alone.db.write() as tx:
        table = schema.project_build_jobs
        await tx.execute(update(table).where(table.c.id == played.job_id).values(lease_expires_at=tx.now - 1))
    async with asyncio.timeout(30):
        status, refusal = await uploading
    assert (status, refusal["code"]) == (409, "BUILD_ATTEMPT_OVER")
    assert (await releases(alone), alone.left_objects()) == (0, [])


async def test_a_lost_runtime_ends_its_build_as_interrupted_and_no_other(alone: Stage) -> None:
    lost, lives = await claim(alone), await claim(alone)
    async with alone.db.write() as tx:
        table = schema.project_build_jobs
        await tx.execute(update(table).where(table.c.id == lost.job_id).values(lease_expires_at=tx.now - 1))
        assert [one.job_id for one in await builds.interrupt_expired(tx)] == [lost.job_id]
    status, refusal = await lost.upload(zipped())
    assert (status, refusal["code"]) == (409, "BUILD_ATTEMPT_OVER")
    _, job = await alone.call("GET", f"/build-jobs/{lost.job_id}")
    assert (job["status"], job["error"]["code"]) == ("failed", "PROJECT_BUILD_INTERRUPTED")
    assert (await lives.upload(zipped()))[0] == 200
    await forget_objects(alone.db, alone.objects, alone.project_id, lives.job_id)  # a promoted one keeps its files
    assert alone.left_objects()


async def test_the_sweep_deletes_what_ended_builds_left_and_never_a_release(alone: Stage) -> None:
    promoted, failed, live = await claim(alone), await claim(alone), await claim(alone)
    assert (await promoted.upload(zipped()))[0] == 200
    kept = sorted(alone.left_objects())
    for played in (promoted, failed, live):  # of an upload whose Backend was killed
        await alone.objects.put(f"builds/{alone.project_id}/{played.job_id}/lost/site.zip", b"zip")
    gone = {"code": "PROJECT_BUILD_UPLOAD_FAILED", "error": {"code": "x", "message": "y"}}
    async with alone.db.write() as tx:
        await builds.fail_build(tx, builds.lease_of(failed.job_id, 1, "played"), gone, [], cancelled=False)
    assert await sweep_builds(alone.db, alone.objects) == 0  # an upload may be on its way yet
    both = await asyncio.gather(*(sweep_builds(alone.db, alone.objects, -1) for _ in range(2)))
    assert max(both) == 2
    left = [path for path in alone.left_objects() if path not in kept]
    assert [path.parent.parent.name for path in left] == [str(live.job_id)]
    assert sorted(set(alone.left_objects()) - set(left)) == kept
    assert await sweep_builds(alone.db, alone.objects, -1) == 0


async def test_a_build_that_nobody_takes_ends_at_its_deadline(alone: Stage) -> None:
    job = await alone.start()
    async with alone.db.write() as tx:
        table = schema.project_build_jobs
        await tx.execute(update(table).where(table.c.id == job["id"]).values(deadline_at=tx.now - 1))
    actor = ProjectBuilds.start(alone.db, alone.objects, alone.parts.tickets, _nobody, [], "", 0.05)
    ended = await alone.ended(job)
    await kernel.stop(actor)
    assert ended["error"]["code"] == "PROJECT_BUILD_RUNTIME_UNAVAILABLE"


async def _nobody(_url: str, _offer: Any) -> None:
    return


async def test_a_build_that_is_overdue_ends_as_that_at_its_next_heartbeat(alone: Stage) -> None:
    played = await claim(alone)
    async with alone.db.write() as tx:
        table = schema.project_build_jobs
        await tx.execute(update(table).where(table.c.id == played.job_id).values(deadline_at=tx.now - 1))
    status, refusal = await played.ask("POST", "/heartbeat", json={"log": ["compiling"]})
    assert (status, refusal["code"]) == (409, "BUILD_ATTEMPT_OVER")
    _, job = await alone.call("GET", f"/build-jobs/{played.job_id}")
    assert (job["status"], job["error"]["code"]) == ("failed", "PROJECT_BUILD_DEADLINE_EXCEEDED")


async def test_a_replica_that_restarts_touches_no_build_that_another_keeps_alive(alone: Stage) -> None:
    lost, lives = await claim(alone), await claim(alone)
    async with alone.db.write() as tx:
        table = schema.project_build_jobs
        await tx.execute(update(table).where(table.c.id == lost.job_id).values(lease_expires_at=tx.now - 1))
    for _ in range(2):  # it comes, ends what is over, goes, and comes again
        actor = ProjectBuilds.start(alone.db, alone.objects, alone.parts.tickets, _nobody, [], "", 0.05)
        ended = await alone.ended({"id": lost.job_id})
        await kernel.stop(actor)
    assert ended["error"]["code"] == "PROJECT_BUILD_INTERRUPTED"
    assert (await lives.ask("POST", "/heartbeat", json={}))[1] == {"cancel": False}
    assert (await lives.upload(zipped()))[0] == 200


async def test_progress_that_is_lost_changes_nothing(alone: Stage) -> None:
    played = await claim(alone)
    await played.ask("POST", "/heartbeat", json={"step": "compiling"})
    assert (await alone.call("GET", f"/build-jobs/{played.job_id}"))[1]["step"] == "compiling"
    await alone.parts.state.delete([f"runtime:build:{played.job_id}"])
    assert (await alone.call("GET", f"/build-jobs/{played.job_id}"))[1]["status"] == "running"
    assert (await played.upload(zipped()))[0] == 200
