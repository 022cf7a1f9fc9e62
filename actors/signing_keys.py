"""The keys that tickets are signed and verified with: where they come from, and which are refused (K1, K3).

Owns the order of the sources (inline, a file, the default file), the making of a key file, and the refusals, each with
a stable code. Tells nobody anything. Reads once, at the start; a rotation is a restart with other settings.
"""

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

log = structlog.get_logger()

BITS_MIN = 2048
BITS_NEW = 2048
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class KeyRefused(ValueError):
    """A key cannot be used. `code` is stable; the text names the setting and never anything of the key."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(f"{message} ({code}). {hint}")
        self.code, self.message, self.hint = code, message, hint


@dataclass(frozen=True)
class PreviousKey:
    """An entry of RUNTIME_RSA_PREVIOUS_KEYS: a file, or the PEM itself, private or public."""

    key_id: str
    file: Path | None = None
    pem: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class KeySources:
    """Where the keys are (K1). `pem` wins over `file`, which wins over `default_file`.

    `may_generate`: a missing file is made; for a single instance only.
    """

    key_id: str
    pem: str | None = field(default=None, repr=False)
    file: Path | None = None
    default_file: Path = Path("data/runtime_rsa_key.pem")
    may_generate: bool = False
    previous: Sequence[PreviousKey] = ()


@dataclass(frozen=True)
class VerifyingKey:
    """A key that tickets may be signed with, for who only verifies. `source` says where it came from."""

    key_id: str
    public: rsa.RSAPublicKey
    source: str

    @property
    def bits(self) -> int:
        return self.public.key_size

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without showing anything of them: SHA-256 of the public part, shortened."""
        public = self.public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(public).hexdigest()[:16]


@dataclass(frozen=True)
class KeyRing:
    """The key that signs, as `current` too, and the previous ones that still verify (K3)."""

    signing: rsa.RSAPrivateKey = field(repr=False)
    current: VerifyingKey
    previous: tuple[VerifyingKey, ...] = ()


def load_key_ring(sources: KeySources) -> KeyRing:
    """Read every key, or make the one that is missing where that is allowed. Raises `KeyRefused`."""
    pem, source = _current_pem(sources)
    signing = _private_key(pem, source)
    current = VerifyingKey(_key_id(sources.key_id, "RUNTIME_RSA_KEY_ID"), signing.public_key(), source)
    previous = tuple(_previous_key(number, key) for number, key in enumerate(sources.previous))
    seen: set[str] = set()
    for key in (current, *previous):
        if key.key_id in seen:
            raise KeyRefused(
                "RSA_KEY_ID_CLASH",
                f"RUNTIME_RSA_PREVIOUS_KEYS: two keys are called {key.key_id!r}",
                "Give each key an id of its own; after a rotation RUNTIME_RSA_KEY_ID names the new key.",
            )
        seen.add(key.key_id)
    return KeyRing(signing, current, previous)


def make_key_file(path: Path, bits: int = BITS_NEW) -> bool:
    """Write a new key that only its owner may read; False when there is a file already, which stays as it is.

    Whole or not at all: a process killed here leaves no half a key, and of two processes at once one wins.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(unfinished)
            return True
        return False
    finally:
        Path(unfinished).unlink()


def _current_pem(sources: KeySources) -> tuple[bytes, str]:
    if sources.pem:
        return _unfolded(sources.pem), "RUNTIME_RSA_PRIVATE_KEY"
    source, file = "RUNTIME_RSA_PRIVATE_KEY_FILE", sources.file
    if file is None:
        source, file = "the default key file", sources.default_file
    if not file.exists():
        if not sources.may_generate:
            raise KeyRefused(
                "RSA_KEY_MISSING",
                f"{source}: there is no file {file}",
                "Make one with `pagegate keys new FILE` and give it to every replica, or, for a single instance, set "
                "RUNTIME_RSA_ALLOW_AUTO_GENERATE=true.",
            )
        try:
            made = make_key_file(file)
        except OSError as error:
            raise KeyRefused(
                "RSA_KEY_UNWRITABLE",
                f"{source}: {file} cannot be made ({type(error).__name__})",
                "Make its folder writable, or name another file.",
            ) from error
        if made:
            log.info("runtime.rsa_key.generated", key_id=sources.key_id)
    return _read(file, source), source


def _read(file: Path, source: str) -> bytes:
    try:
        pem = file.read_bytes()
        exposed = file.stat().st_mode & 0o077
    except OSError as error:
        raise KeyRefused(
            "RSA_KEY_UNREADABLE", f"{source}: cannot be read ({type(error).__name__})", "Check the path and its owner."
        ) from error
    if exposed:
        # Secrets that an orchestrator mounts often are; so it is said, not refused.
        log.warning("runtime.rsa_key.exposed", source=source, hint="others than its owner may read it: chmod 600")
    return pem


def _previous_key(number: int, key: PreviousKey) -> VerifyingKey:
    source = f"RUNTIME_RSA_PREVIOUS_KEYS[{number}]"
    key_id = _key_id(key.key_id, source)
    pem = _unfolded(key.pem) if key.file is None else _read(key.file, source)
    if b"PUBLIC KEY" in pem:
        return VerifyingKey(key_id, _public_key(pem, source), source)
    return VerifyingKey(key_id, _private_key(pem, source).public_key(), source)


def _unfolded(pem: str | None) -> bytes:
    """A PEM as environments carry it: with `\\n` written out, where they cannot hold lines."""
    return (pem or "").replace("\\n", "\n").encode()


def _key_id(value: str, source: str) -> str:
    if not _KEY_ID.fullmatch(value):
        raise KeyRefused(
            "RSA_KEY_ID_INVALID", f"{source}: is no key id", "Use 1 to 100 of A-Z, a-z, 0-9, '.', '_' and '-'."
        )
    return value


def _private_key(pem: bytes, source: str) -> rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise KeyRefused(
            "RSA_KEY_ENCRYPTED",
            f"{source}: the key is encrypted",
            "Decrypt it with `openssl pkey`; protect the file instead.",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _malformed(source) from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise _wrong_kind(source)
    _check_strength(key.key_size, source)
    return key


def _public_key(pem: bytes, source: str) -> rsa.RSAPublicKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _malformed(source) from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise _wrong_kind(source)
    _check_strength(key.key_size, source)
    return key


def _check_strength(bits: int, source: str) -> None:
    if bits < BITS_MIN:
        raise KeyRefused(
            "RSA_KEY_WEAK",
            f"{source}: the key has {bits} bits, at least {BITS_MIN} are needed",
            "Make one with `pagegate keys new FILE`.",
        )


def _malformed(source: str) -> KeyRefused:
    return KeyRefused("RSA_KEY_MALFORMED", f"{source}: holds no key in PEM", "Make one with `pagegate keys new FILE`.")


def _wrong_kind(source: str) -> KeyRefused:
    return KeyRefused(
        "RSA_KEY_WRONG_KIND",
        f"{source}: holds a key of another kind than RSA",
        "Make one with `pagegate keys new FILE`.",
    )
