"""What README tells a person to type, typed."""

import asyncio
import io
import os
import re
import shutil
from pathlib import Path

from PIL import Image

from pagegate.deploy.demo import create_administrator, lite

ROOT = Path(__file__).resolve().parents[3]


def commands() -> str:
    """The block with curl, as it stands there."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "curl" in block]
    return str(block)


async def test_the_commands_of_the_readme_work_as_they_are_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy" / "sample", tmp_path / "deploy" / "sample")
    async with lite(tmp_path / "data") as server:
        script = commands()
        assert "=http://127.0.0.1:8080;" in script
        script = script.replace("http://127.0.0.1:8080", server.url)
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", script),
            cwd=tmp_path,
            env={**os.environ, "TOKEN": await create_administrator(server)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(120):
            told = (await process.communicate())[0].decode()
    assert process.returncode == 0, told
    assert '"hint"' not in told, "a call was refused"
    assert "event: run.finished" in told
    assert '"status":"passed"' in told
    picture = (tmp_path / "deploy" / "sample" / "q3-title.png").read_bytes()
    with Image.open(io.BytesIO(picture)) as opened:
        assert opened.size == (1280, 720)
