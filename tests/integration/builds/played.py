"""A Runtime that a test plays: it claims a build through the Backend's door and does with it what the test wants."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

from pagegate.runtime.build_contract import OFFER_SUBJECT
from tests.integration.builds.conftest import Stage


class Played:
    """A Runtime that this test plays, with one claimed attempt."""

    def __init__(self, stage: Stage, claimed: Mapping[str, Any]) -> None:
        self.stage, self.token = stage, claimed["token"]
        self.job_id, self.limit = claimed["job_id"], claimed["artifact_bytes_max"]
        self.base = f"{stage.backend}/internal/runtime/build-jobs/{claimed['job_id']}/{claimed['attempt']}"

    async def ask(self, method: str, path: str, token: str | None = None, **sent: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        async with self.stage.http.request(method, self.base + path, headers=headers, **sent) as answer:
            text = await answer.text()
            return answer.status, (await answer.json() if text else None)

    async def upload(self, content: Any, **more: Any) -> tuple[int, Any]:
        data = io.BytesIO(content) if isinstance(content, bytes) else content
        return await self.ask("PUT", "/artifact", data=data, **more)


async def claim(stage: Stage) -> Played:
    await stage.start()
    ticket = stage.parts.tickets.issue(OFFER_SUBJECT)
    async with stage.http.post(
        f"{stage.backend}/internal/runtime/build-jobs/claim",
        json={"worker_id": "played", "runtime_build": "vite-played"},
        headers={"Authorization": f"Bearer {ticket}"},
    ) as answer:
        assert answer.status == 200
        return Played(stage, (await answer.json())["claimed"])


def zipped(files: Mapping[str, bytes] | None = None, *entries: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"index.html": b"<h1>site</h1>", **(files or {})}.items():
            archive.writestr(name, content)
        for entry, content in entries:
            archive.writestr(entry, content)
    return made.getvalue()


async def releases(stage: Stage) -> int:
    _, found = await stage.call("GET", f"/projects/{stage.project_id}/releases")
    return len(found["releases"])
