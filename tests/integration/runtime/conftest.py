"""A real Node worker for tests that only look at its answers: one for the whole session, spoken to without a loop."""

import asyncio
import json
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pagegate.runtime.node_worker import _environment, bundle_frameworks, default_cache, find_node, runtime_home

SAMPLE = Path(__file__).parents[3] / "deploy" / "sample"
CANARY = "CANARY-7f3a-must-not-leak"


class Compiler:
    """Compiles one page after the other, in folders that lie beside files which no page may read."""

    def __init__(self, root: Path) -> None:
        home = runtime_home()
        self.root = root
        self.tasks = root / "slot" / ".runtime-task"
        self.tasks.mkdir(parents=True)
        (root / "slot" / "tmp").mkdir()
        _plant_packages(root / "slot" / "node_modules", home / "node_modules")
        _plant_canaries(root)
        self.vendor = asyncio.run(bundle_frameworks(find_node(), home, default_cache(home)))
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [
                find_node(),
                home / "worker.mjs",
                str(theirs.fileno()),
                self.vendor,
                root / "slot" / "tmp",
            ],
            cwd=root / "slot",
            env={**_environment(root / "slot" / "tmp"), "VITE_SECRET": CANARY, "SECRET": CANARY},
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        ours.settimeout(120)
        self._lines = ours.makefile("rwb")
        ours.close()
        self.ready = json.loads(self._lines.readline())

    def compile(
        self,
        entry: str,
        modules: Mapping[str, str],
        *,
        assets: Sequence[str] = ("logo.svg",),
        known: Mapping[str, Sequence[str]] | None = None,
        title: str = "A page",
        notes: str = "",
        height_px: int | None = 720,
        **more: Any,
    ) -> dict[str, Any]:
        folder = self.tasks / str(uuid.uuid4())
        folder.mkdir()
        order = {
            "id": folder.name,
            "dir": str(folder),
            "entry": entry,
            "modules": dict(modules),
            "assets": list(assets),
            "known": known or {},
            "page": {"code": "page", "title": title, "speaker_notes": notes},
            "canvas": {"width_px": 1280, "height_px": height_px},
            **more,
        }
        try:
            self._lines.write(json.dumps(order).encode() + b"\n")
            self._lines.flush()
            answer: dict[str, Any] = json.loads(self._lines.readline())
        finally:
            shutil.rmtree(folder)
        assert answer["ok"], answer
        assert bool(answer["errors"]) != bool(answer["files"])
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._lines.close()


def _plant_canaries(root: Path) -> None:
    """Files that a page might want to read, next to the task folder, above it, and at a fixed absolute place."""
    for folder in (root, root / "slot", root / "slot" / ".runtime-task"):
        for name, text in {
            "secret.txt": CANARY,
            "secret.js": f"export default '{CANARY}'",
            "secret.json": json.dumps({"secret": CANARY}),
            "secret.css": f".x {{ content: '{CANARY}' }}",
            "secret.svg": f"<svg><!-- {CANARY} --></svg>",
            "secret.ts": f"export interface Props {{ '{CANARY}': string }}",
            "secret.vue": f"<template><p>{CANARY}</p></template>",
            "secret.map": json.dumps({"version": 3, "sources": [CANARY], "mappings": ""}),
            ".env": f"VITE_SECRET={CANARY}",
            ".env.development": f"VITE_OTHER={CANARY}",
            "postcss.config.js": f"throw new Error('{CANARY}')",
        }.items():
            (folder / name).write_text(text)
        (folder / "link.js").symlink_to(folder / "secret.js")
        (folder / "link.vue").symlink_to("/etc/passwd")


def _plant_packages(folder: Path, installed: Path) -> None:
    """The packages that there are, and one more with a secret in it."""
    folder.mkdir()
    for package in installed.iterdir():
        (folder / package.name).symlink_to(package)
    package = folder / "canary"
    package.mkdir()
    (package / "package.json").write_text(json.dumps({"name": "canary", "main": "index.js", "description": CANARY}))
    (package / "index.js").write_text(f"export default '{CANARY}'")
    (package / "style.css").write_text(f".x {{ content: '{CANARY}' }}")


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    compiler = Compiler(tmp_path_factory.mktemp("compiler"))
    yield compiler
    compiler.close()


def vue(script: str = "", template: str = "<p>text</p>", style: str = "") -> str:
    """A page whose script starts in line 2, and whose template's root is in the line after the template tag."""
    parts = [f'<script setup lang="ts">\n{script}\n</script>', f"<template>\n<div>{template}</div>\n</template>"]
    if style:
        parts.append(f"<style scoped>\n{style}\n</style>")
    return "\n".join(parts) + "\n"


def sample_modules() -> dict[str, str]:
    return {
        f"{folder}/{file.name}": file.read_text()
        for folder in ("pages", "components")
        for file in (SAMPLE / folder).iterdir()
    }
