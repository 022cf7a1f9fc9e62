"""A real Redis for the tests: on a free port, owned by the test run, gone with it.

It can be cut off, restarted, hung, filled up and put behind TLS. Nothing of it is ever on disk.
"""

import datetime
import ipaddress
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services import dies_with_parent, free_port


class RedisServer:
    """`maxmemory` and `password` as Redis reads them; `tls`: it speaks nothing else."""

    def __init__(self, *, maxmemory: str = "0", password: str = "", tls: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pagegate-test-redis-")
        self.port, self._maxmemory, self._password, self._tls = free_port(), maxmemory, password, tls
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        user = f":{self._password}@" if self._password else ""
        if self._tls:
            return f"rediss://{user}127.0.0.1:{self.port}/0?ssl_ca_certs={self._folder.name}/cert.pem"
        return f"redis://{user}127.0.0.1:{self.port}/0"

    def __enter__(self) -> "RedisServer":
        if self._tls:
            _write_certificate(Path(self._folder.name))
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        """Start, and wait until it says that it is ready. It is empty."""
        command = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--maxmemory", self._maxmemory, "--maxmemory-policy", "noeviction", "--dir", self._folder.name]
        if self._password:
            command += ["--requirepass", self._password]
        if self._tls:
            files = ["--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem", "--tls-ca-cert-file", "cert.pem"]
            command += ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no", *files]
        else:
            command += ["--port", str(self.port)]
        self._process = subprocess.Popen(
            command,
            cwd=self._folder.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=dies_with_parent(signal.SIGKILL),  # noqa: PLW1509 - one system call, looked up before the fork
        )
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line)
            if "Ready to accept connections" in line:
                return
        raise RuntimeError("Redis did not start:\n" + "".join(said))

    def stop(self) -> None:
        """Kill it: connections break, what it held is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def hang(self) -> None:
        """It accepts connections (the kernel does) and answers nothing, until `go_on`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def say(self, *words: str) -> str:
        """Send it a command on a connection of our own; its raw answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as plain:
            plain.sendall((" ".join(words) + "\r\n").encode())
            return plain.recv(65536).decode()


def _write_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
