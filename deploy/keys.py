"""`pagegate keys`: make, list and rotate the keys that tickets are signed with (K1, K3).

Owns the words of the commands. Reads settings and key files of this machine, talks to no server, changes none of its
settings unless a file is named with --write. Nothing of a private key is ever printed.
"""

import json
import math
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import serialization

from pagegate.actors.signing_keys import (
    BITS_MIN,
    KeyRefused,
    KeyRing,
    KeySources,
    VerifyingKey,
    load_key_ring,
    make_key_file,
)
from pagegate.actors.tickets import TICKET_TTL_S
from pagegate.deploy.key_settings import KeySettings
from pagegate.deploy.process_settings import SettingsError, load
from pagegate.runtime.preview_token import KEYS_KEPT_S, LEEWAY_S

EXIT_GOOD, EXIT_REFUSED = 0, 2
FILE, KEY_ID, PREVIOUS = "RUNTIME_RSA_PRIVATE_KEY_FILE", "RUNTIME_RSA_KEY_ID", "RUNTIME_RSA_PREVIOUS_KEYS"


def new_key(file: Path, bits: int) -> int:
    """`pagegate keys new FILE`; the exit code. An existing file stays as it is."""
    if bits < BITS_MIN:
        return _refuse(f"--bits {bits}: at least {BITS_MIN} are needed (RSA_KEY_WEAK)")
    try:
        made = make_key_file(file, bits)
    except OSError as error:
        return _refuse(f"{file}: cannot be made ({error.strerror})")
    if not made:
        return _refuse(f"{file}: is there already, and stays as it is; choose another name")
    _say(f"made {file} ({bits} bits, mode 0600)", f"set {FILE}={file} on every Backend")
    return EXIT_GOOD


def new_fernet_key() -> int:
    """`pagegate keys fernet`: a value for AI_SECRET_ENCRYPTION_KEY."""
    _say(Fernet.generate_key().decode())
    return EXIT_GOOD


def list_keys(env_file: Path | None, data: Path) -> int:
    """`pagegate keys list`: the keys that a Backend of these settings would start with."""
    try:
        ring = load_key_ring(_sources(env_file, data))
    except (SettingsError, KeyRefused) as refused:
        return _refuse(str(refused))
    _say(f"{'id':<24} {'use':<18} {'bits':>5}  {'fingerprint':<16}  source")
    for key, use in [(ring.current, "signs, verifies"), *((key, "verifies") for key in ring.previous)]:
        _say(f"{key.key_id:<24} {use:<18} {key.bits:>5}  {key.fingerprint:<16}  {key.source}")
    return EXIT_GOOD


def rotate(env_file: Path | None, data: Path, *, key_id: str | None, to: Path | None, write: Path | None) -> int:
    """`pagegate keys rotate`: make the next key, and say (or write) the settings that make it sign."""
    try:
        sources = _sources(env_file, data)
        ring = load_key_ring(sources)
        chosen = key_id or next_key_id(ring)
        if chosen in {key.key_id for key in (ring.current, *ring.previous)}:
            return _refuse(f"--kid {chosen}: a key of this id is in use (RSA_KEY_ID_CLASH)")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", chosen):
            return _refuse(f"--kid {chosen}: use 1 to 100 of A-Z, a-z, 0-9, '.', '_' and '-' (RSA_KEY_ID_INVALID)")
        file = to or (sources.file or sources.default_file).with_name(f"runtime_rsa_key.{chosen}.pem")
        if not make_key_file(file):
            return _refuse(f"{file}: is there already, and stays as it is; choose another name with --to")
    except (SettingsError, KeyRefused) as refused:
        return _refuse(str(refused))
    except OSError as error:
        return _refuse(f"the new key's file cannot be made ({error.strerror})")
    older = _entries(sources, ring)
    settings = {FILE: str(file), KEY_ID: chosen, PREVIOUS: _json([_entry_of_current(sources, ring.current), *older])}
    _say(f"made {file} for the key {chosen}", "")
    _say(
        "Several Backends: first let every one of them accept the new key. Restart them one by one with",
        f"  {PREVIOUS}={_json([*older, {'kid': chosen, 'private_key_file': str(file)}])}",
        "Then sign with it (a single Backend: at once). Restart with",
        *(f"  {name}={value}" for name, value in settings.items()),
    )
    if sources.pem:
        _say("and without RUNTIME_RSA_PRIVATE_KEY, which would win over the file.")
    minutes = math.ceil((TICKET_TTL_S + LEEWAY_S + KEYS_KEPT_S) / 60)
    _say(
        "",
        f"{minutes} minutes after the last of these restarts nothing that {ring.current.key_id} signed is valid:",
        f"take it out of {PREVIOUS} and restart once more. If the old key was stolen, take it out now:",
        "open previews end, and checks under way are tried again.",
    )
    if write is not None:
        try:
            write.write_text(with_settings(write.read_text("utf-8") if write.exists() else "", settings), "utf-8")
        except OSError as error:
            return _refuse(f"{write}: cannot be written ({error.strerror}); set the lines above by hand")
        _say("", f"written to {write}")
    return EXIT_GOOD


def next_key_id(ring: KeyRing) -> str:
    """The current id with its number one higher, or with a number: `default-key-1` → `default-key-2`. Pure."""
    taken = {key.key_id for key in (ring.current, *ring.previous)}
    stem, number = re.fullmatch(r"(.*?)(\d*)", ring.current.key_id).groups()  # type: ignore[union-attr]  # matches all
    chosen, next_number = ring.current.key_id, int(number or 1)
    while chosen in taken:
        next_number += 1
        chosen = f"{stem if number else stem + '-'}{next_number}"
    return chosen


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """An environment file with these settings: where they stand, also as a comment, or at its end. Pure."""
    lines = text.splitlines()
    for name, value in settings.items():
        places = [at for at, line in enumerate(lines) if re.match(rf"{name}\s*=", line)]
        places = places or [at for at, line in enumerate(lines) if re.match(rf"#\s?{name}\s*=", line)][:1]
        for at in places:
            lines[at] = f"{name}={value}"
        if not places:
            lines.append(f"{name}={value}")
    return "\n".join(lines) + "\n"


def _sources(env_file: Path | None, data: Path) -> KeySources:
    """Raises `SettingsError`."""
    settings = load(KeySettings, env_file)
    sources = settings.key_sources()
    if sources.file is None and sources.pem is None:
        return KeySources(key_id=sources.key_id, default_file=data / "runtime_rsa_key.pem", previous=sources.previous)
    return sources


def _entry_of_current(sources: KeySources, current: VerifyingKey) -> dict[str, str]:
    if sources.pem:
        public = current.public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return {"kid": current.key_id, "public_key": public.decode()}  # to verify with, the public part is enough
    return {"kid": current.key_id, "private_key_file": str(sources.file or sources.default_file)}


def _entries(sources: KeySources, ring: KeyRing) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = []
    for given, key in zip(sources.previous, ring.previous, strict=True):
        if given.file is not None:
            entries.append({"kid": key.key_id, "private_key_file": str(given.file)})
        else:
            public = key.public.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            entries.append({"kid": key.key_id, "public_key": public.decode()})
    return entries


def _json(entries: list[dict[str, str]]) -> str:
    """Without spaces: an environment file need not quote it."""
    return json.dumps(entries, separators=(",", ":"))


def _say(*lines: str) -> None:
    sys.stdout.write("".join(line + os.linesep for line in lines))


def _refuse(why: str) -> int:
    sys.stderr.write(f"pagegate keys: {why}\n")
    return EXIT_REFUSED
