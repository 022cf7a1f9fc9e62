"""Secrets of users, encrypted with `AI_SECRET_ENCRYPTION_KEY` (A10, K7).

Owns the keys. The first encrypts; the others only decrypt, for as long as a change of keys takes. Nothing decrypted is
kept, logged or shown. Survives a restart with another key: what cannot be read says so by its own error, and everything
else goes on.
"""

import base64
import binascii
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class SecretUnreadable(Exception):
    """AI_CREDENTIAL_UNREADABLE: none of the keys decrypts what is stored."""


class SecretKeyInvalid(ValueError):
    """A key that is none, or a placeholder. Its text never shows the key."""


class Secrets:
    """`keys`: the current one first, then those that were current before. Raises `SecretKeyInvalid`."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise SecretKeyInvalid("AI_SECRET_ENCRYPTION_KEY: there is no key")
        self._current = Fernet(check_key(keys[0]))
        self._all = MultiFernet([Fernet(check_key(key)) for key in keys])

    @classmethod
    def from_file(cls, path: Path, previous: Sequence[str] = ()) -> "Secrets":
        """The key that a file holds; one is made when it is missing (a single instance only, K4)."""
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(Fernet.generate_key())
            try:
                os.link(fresh, path)  # of two that start at once, one makes the key
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        try:
            key = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretKeyInvalid(f"the key file {path.name} cannot be read ({type(error).__name__})") from error
        return cls([key, *previous])

    def encrypt(self, secret: str) -> str:
        return self._current.encrypt(secret.encode()).decode("ascii")

    def decrypt(self, token: str) -> str:
        """Raises `SecretUnreadable`."""
        try:
            return self._all.decrypt(token.encode()).decode()
        except (InvalidToken, UnicodeError):
            raise SecretUnreadable("A stored secret cannot be decrypted with the keys of this process.") from None

    def rewrap(self, token: str) -> str | None:
        """The same secret under the current key; None when it is under it already. Raises `SecretUnreadable`."""
        try:
            self._current.decrypt(token.encode())
        except (InvalidToken, UnicodeError):
            return self.encrypt(self.decrypt(token))
        return None


def check_key(key: str) -> str:
    """A usable Fernet key; raises `SecretKeyInvalid` for anything else, placeholders among it."""
    hint = "make one with `python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'`"
    try:
        raw = base64.urlsafe_b64decode(key.encode("ascii"))
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise SecretKeyInvalid(f"AI_SECRET_ENCRYPTION_KEY: is no Fernet key; {hint}") from None
    if len(raw) != 32:
        raise SecretKeyInvalid(f"AI_SECRET_ENCRYPTION_KEY: is no Fernet key (32 bytes in base64); {hint}")
    if len(set(raw)) < 8 or len(set(key)) < 12:
        raise SecretKeyInvalid(f"AI_SECRET_ENCRYPTION_KEY: is a placeholder; {hint}")
    return key
