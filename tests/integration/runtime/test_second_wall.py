"""The second wall alone (X2): a compiler with no allow-list at all, in the sandbox that workers are started in.

The first wall alone is what test_hostile_sources.py tries: its worker runs without a sandbox. Here Vite is as it comes,
which reads what a page names and runs what a style configures; the same pages do get the secrets without the sandbox.
"""

import base64
import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import structlog
from aiohttp.test_utils import TestServer

from pagegate.actors.systems import runtime as runtime_system
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.http.runtime import runtime_app
from pagegate.runtime.contract import ArtifactManifest, Canvas, EntryPage
from pagegate.runtime.node_worker import (
    NodeWorker,
    WorkerConfig,
    _environment,
    bundle_frameworks,
    default_cache,
    find_node,
    runtime_home,
)
from pagegate.runtime.sandbox import find_bubblewrap, walled
from pagegate.runtime.sources import MemoryModuleSource

from .conftest import CANARY, vue

BUILD = Path(__file__).parent / "stock_build.mjs"
SEEN_CLASS = "p-[4711px]"
BUBBLEWRAP = find_bubblewrap()

needs_bubblewrap = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap is missing, or this host forbids it")


def page(script: str = "", style: str = "", template: str = "<p>x</p>") -> dict[str, str]:
    return {"page.vue": f"<script setup>\n{script}\n</script><template>{template}</template><style>\n{style}\n</style>"}


def orders(secrets: Path, port: int) -> dict[str, dict[str, str]]:
    """Pages that get at `secrets` with stock Vite; at a process that listens; at the environment of who started it."""
    up = f"../../{secrets.name}"
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3"
    environments = 'cat /proc/[0-9]*/environ | tr "\\\\0" " "'
    steal = (
        "import fs from 'node:fs'; import { execSync } from 'node:child_process'\n"
        "const run = (command) => execSync(command, { shell: '/bin/bash', timeout: 2000 }).toString()\n"
        f"const tried = [() => fs.readFileSync('{secrets}/secret.txt', 'utf8'), () => run('cat {secrets}/secret.txt'),"
        f" () => run({json.dumps(environments)}), () => run({json.dumps(connect)})]\n"
        "const tell = (attempt) => { try { return attempt() } catch { return 'nothing' } }\n"
        "const got = tried.map(tell).join(' ').replaceAll('\\n', ' ')\n"
    )
    plugin = steal + "export default ({ addBase }) => addBase({ '.got': { content: JSON.stringify(got) } })"
    config = steal + "export default { theme: { extend: { content: { got: JSON.stringify(got) } } } }"
    entry = f"@import 'tailwindcss' source(none); @source '{secrets}/secret.txt';"
    return {
        "raw": page(f"import s from '{up}/secret.txt?raw'; console.log(s)"),
        "raw of an absolute path": page(f"import s from '{secrets}/secret.txt?raw'; console.log(s)"),
        "raw of the dev server": page(f"import s from '/@fs{secrets}/secret.txt?raw'; console.log(s)"),
        "url": page(f"import s from '{up}/secret.svg?url&inline'; console.log(s)"),
        "json": page(f"import s from '{up}/secret.json'; console.log(s)"),
        "javascript": page(f"import s from '{up}/secret.js'; console.log(s)"),
        "glob": page(f"console.log(import.meta.glob('{up}/*.txt', {{ eager: true, query: '?raw' }}))"),
        "new url": page(f"console.log(new URL('{up}/secret.svg', import.meta.url).href)"),
        "symlink": page(f"import s from '{up}/link.txt?raw'; console.log(s)"),
        "css import": page(style=f"@import '{up}/secret.css';"),
        "css url": page(style=f".x {{ background: url({up}/secret.svg) }}"),
        "template": {"page.vue": f"<template src='{up}/secret.vue'></template>"},
        "style": {"page.vue": f"<template><p>x</p></template><style src='{up}/secret.css'></style>"},
        "tailwind source": {"entry.js": "import './entry.css'", "entry.css": entry},
        "tailwind plugin beside": page(style=f"@plugin '{up}/plugin.js';"),
        "tailwind plugin that steals": {**page(style="@plugin './plugin.js';"), "plugin.js": plugin},
        "tailwind config that steals": {
            **page(style="@reference 'tailwindcss'; @config './config.js'; .x { @apply content-got; }"),
            "config.js": config,
        },
        "types": page(template="{{ x }}") | {"entry.js": f"import s from '{up}/secret.ts'; console.log(s)"},
    }


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beside") / "secrets"
    folder.mkdir()
    plugin = f"export default ({{ addBase }}) => addBase({{ '.got': {{ content: '{CANARY}' }} }})"
    for name, text in {
        "secret.txt": f"{CANARY} {SEEN_CLASS}",
        "secret.js": f"export default '{CANARY}'",
        "secret.ts": f"export default '{CANARY}' as string",
        "secret.json": json.dumps({"secret": CANARY}),
        "secret.css": f".x {{ content: '{CANARY}' }}",
        "secret.svg": f"<svg><!-- {CANARY} --></svg>",
        "secret.vue": f"<p>{CANARY}</p>",
        "plugin.js": plugin,
    }.items():
        (folder / name).write_text(text)
    (folder / "link.txt").symlink_to(folder / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Something on this machine that tells a secret to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def tell() -> None:
            with contextlib.suppress(OSError):  # the server was closed
                while True:
                    client, _ = server.accept()
                    with client:
                        client.sendall(CANARY.encode())

        threading.Thread(target=tell, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def built(secrets: Path, port: int, *, wall: bool) -> dict[str, str]:
    """What stock Vite tells for each page."""
    slot, node, home = secrets.parent / ("walled" if wall else "open"), find_node(), runtime_home()
    (slot / "tmp").mkdir(parents=True)
    (slot / "node_modules").symlink_to(home / "node_modules")
    given = [{"name": name, "files": files} for name, files in orders(secrets, port).items()]
    (slot / "orders.json").write_text(json.dumps(given))
    command = [str(node), str(BUILD), str(home), str(slot)]
    if wall:
        assert BUBBLEWRAP is not None
        command = walled(command, BUBBLEWRAP, readable=[node.resolve(), home, BUILD], writable=[slot])
    # As the Runtime starts its workers: with the environment that they may know, from a process that knows more.
    started_by = ["env", f"SECRET={CANARY}", "sh", "-c", 'env -i "$@"; exit $?', "sh"]
    clean = [f"{name}={value}" for name, value in _environment(slot / "tmp").items()]
    subprocess.run([*started_by, *clean, *command], cwd=slot, check=True, timeout=120, capture_output=True)
    told: dict[str, str] = json.loads((slot / "told.json").read_text())
    return told


def leaked(told: str) -> bool:
    encoded = base64.b64encode(f"<svg><!-- {CANARY} --></svg>".encode()).decode()
    return any(secret in told for secret in (CANARY, encoded, "4711px", "root:x:0:0"))


@needs_bubblewrap
def test_compiler_without_an_allow_list_gets_at_nothing_in_the_sandbox(secrets: Path, port: int) -> None:
    open_wide, in_the_wall = built(secrets, port, wall=False), built(secrets, port, wall=True)
    assert [name for name, told in in_the_wall.items() if leaked(told)] == []
    harmless = [name for name, told in open_wide.items() if not leaked(told)]
    assert harmless == [], "these would prove nothing"


@needs_bubblewrap
async def test_worker_in_the_sandbox_survives_what_would_overflow_a_parser(tmp_path: Path) -> None:
    """The large stack has its place in the sandbox and under the limits of memory, too."""
    node, home = find_node(), runtime_home()
    vendor = await bundle_frameworks(node, home, default_cache(home))
    for name in ("tmp", "tasks"):
        (tmp_path / name).mkdir()
    (tmp_path / "node_modules").symlink_to(home / "node_modules")
    worker = await NodeWorker.start(WorkerConfig(node, home, vendor, bubblewrap=BUBBLEWRAP), tmp_path, tmp_path / "tmp")
    try:
        codes = []
        for number, source in enumerate([vue("const a = " + "a=>" * 20_000 + "1"), vue()]):
            (tmp_path / "tasks" / str(number)).mkdir()
            answer = await worker.run(
                {
                    "id": str(number),
                    "op": "compile",
                    "dir": str(tmp_path / "tasks" / str(number)),
                    "entry": "pages/a.vue",
                    "modules": {"pages/a.vue": source},
                    "assets": [],
                    "page": {"code": "a", "title": "", "speaker_notes": ""},
                    "canvas": {"width_px": 1280, "height_px": 720},
                }
            )
            codes.append([error.code for error in answer.errors])
        assert codes == [["PAGE_SOURCE_TOO_LARGE"], []]
    finally:
        await worker.kill()


@pytest.mark.parametrize("wanted", [True, False])
async def test_runtime_says_which_walls_are_up(tmp_path: Path, wanted: bool) -> None:
    """In its readiness and in its log."""
    async with RuntimeSystem(RuntimeOptions(work_dir=tmp_path, worker_sandbox=wanted)) as system:
        await system.ready.wait()
        server = TestServer(runtime_app(system))
        await server.start_server()
        async with aiohttp.ClientSession() as session, session.get(server.make_url("/readyz")) as response:
            told = await response.json()
        await server.close()
    assert told["isolation"] == (["allow-list", "bubblewrap"] if wanted and BUBBLEWRAP else ["allow-list"])


async def test_host_without_bubblewrap_is_said_once_and_keeps_the_first_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_system, "find_bubblewrap", lambda: None)
    with structlog.testing.capture_logs() as logged:
        async with RuntimeSystem(RuntimeOptions(work_dir=tmp_path)) as system:
            source = vue(f"import s from '{tmp_path}/secret.txt?raw'; console.log(s)")
            manifest = ArtifactManifest(
                artifact_id="rt_1",
                entry="pages/a.vue",
                framework="vue",
                modules=["pages/a.vue"],
                entry_page=EntryPage(code="a"),
                canvas=Canvas(width_px=1280, height_px=720),
            )
            result = await system.compile("t1", MemoryModuleSource(manifest, {"pages/a.vue": source}))
    assert [error.code for error in result.errors] == ["PAGE_IMPORT_NOT_ALLOWED"]
    events = {entry["event"]: entry for entry in logged}
    assert events["runtime.started"]["isolation"] == ["allow-list"]
    assert events["runtime.sandbox.unavailable"]["log_level"] == "warning"
