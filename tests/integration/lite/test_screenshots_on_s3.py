"""`pagegate lite` with its pictures in a bucket: a page through the gate, then in two more viewports (S1, S2).

Real Vite, real Chromium, a real S3 server.
"""

import io
from pathlib import Path
from typing import Any

import aiohttp
from PIL import Image

from pagegate.deploy.client import Api
from pagegate.deploy.demo import create_administrator, lite
from tests.s3_server import S3Server

SOURCE = "<template><main class='p-8'><h1 class='text-4xl'>Quarterly review</h1></main></template>"


async def test_a_page_and_its_screenshots_with_every_picture_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.bucket()
    environment = {
        "ASSET_STORAGE_DRIVER": "s3",
        "S3_ENDPOINT_URL": bucket.endpoint_url,
        "S3_BUCKET": bucket.bucket,
        "S3_ACCESS_KEY_ID": bucket.access_key_id,
        "S3_SECRET_ACCESS_KEY": bucket.secret_access_key,
        "S3_PREFIX": "lite",
    }
    async with lite(tmp_path, environment=environment) as server:
        token = await create_administrator(server, "ada")
        async with Api(server.url, token) as api:
            sizes = []
            headers = {"Authorization": f"Bearer {token}"}
            async with aiohttp.ClientSession(server.url, headers=headers) as http:
                group = await ask_for_pictures(api, http)
                assert "event: group.ended" in await whole(http, f"/screenshot-groups/{group['id']}/events")
                shown = await api.call("GET", f"/screenshot-groups/{group['id']}")
                for member in shown["members"]:
                    assert member["state"] == "succeeded", member
                    async with http.get(member["picture"]["url"]) as answer:
                        sizes.append(Image.open(io.BytesIO(await answer.read())).size)
            assert sizes == [(1280, 720), (390, 844), (600, 720)]
            assert shown["members"][0]["job_id"] is None, "the check's own picture is pointed at"
    assert pictures_below(tmp_path) == []


def pictures_below(folder: Path) -> list[Path]:
    return list(folder.rglob("*.png"))


async def ask_for_pictures(api: Api, http: aiohttp.ClientSession) -> dict[str, Any]:
    """A group of pictures of a page that has just passed the gate."""
    workspace = await api.call("POST", "/workspaces", {"name": "w"})
    canvas = {"width_px": 1280, "height_px": 720}
    project = await api.call("POST", f"/workspaces/{workspace['id']}/projects", {"name": "p", "canvas": canvas})
    arguments = {"title": "Review", "source": SOURCE}
    call = {"call_id": "c", "tool": "create_project_page", "arguments": arguments}
    run = await api.call("POST", f"/projects/{project['id']}/tool-calls", {"calls": [call]})
    await whole(http, f"/runs/{run['run_id']}/events")
    told = await api.call("GET", f"/runs/{run['run_id']}")
    assert told["calls"][0]["result"]["screenshot"] == "published", told
    viewports = [canvas, {"width_px": 390, "height_px": 844}, {"width_px": 600}]
    group: dict[str, Any] = await api.call(
        "POST", f"/projects/{project['id']}/screenshot-groups", {"viewports": viewports}
    )
    return group


async def whole(http: aiohttp.ClientSession, path: str) -> str:
    """A stream of events, from its begin to its end."""
    async with http.get(path) as answer:
        return await answer.text()
