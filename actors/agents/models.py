"""Which model a run asks, and by whose key (A10).

Owns the choice: the scripted model, or a user's credential, decrypted for as long as a client lives and never kept,
logged or shown. Also the check of a credential before it is saved, and which addresses may be asked at all: a base URL
comes from a user, and the Backend stands in a network that the user does not (X1).
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pagegate.actors.agents.brain import RunEnds
from pagegate.actors.agents.secrets import Secrets, SecretUnreadable
from pagegate.storage import credentials
from pagegate.storage.credentials import CredentialNotFound
from pagegate.storage.engine import Database

SCRIPTED = "scripted"
CREDENTIAL = "credential"
CHECK_TIMEOUT_S = 20.0


class BaseUrlNotAllowed(Exception):
    """AI_MODEL_BASE_URL_NOT_ALLOWED: this deployment asks models at other addresses only."""


class CredentialRefused(Exception):
    """The credential was tried and does not work. `code` says why; nothing of the provider's answer is shown."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class ModelAccess:
    """How to reach a model of a provider. `base_url` None: the provider's own address."""

    provider: str
    model: str
    base_url: str | None
    key: str

    def __repr__(self) -> str:
        return f"ModelAccess({self.provider}, {self.model})"


class Models:
    """`base_urls`: those that users may name besides the providers' own; `*` allows any. `scripted` makes the script.

    `scripted` None: the one of the demo. `stream_s` bounds every single wait for a provider.
    """

    def __init__(
        self,
        db: Database,
        secrets: Secrets | None,
        *,
        base_urls: Sequence[str] = (),
        scripted: Callable[[], Any] | None = None,
        stream_s: float = 120.0,
    ) -> None:
        self._db, self._secrets, self._scripted, self._stream_s = db, secrets, scripted, stream_s
        self._base_urls = {url.rstrip("/") for url in base_urls}

    @property
    def secrets(self) -> Secrets | None:
        return self._secrets

    def check_base_url(self, base_url: str | None) -> None:
        """Raises `BaseUrlNotAllowed`."""
        if base_url is None or "*" in self._base_urls or base_url.rstrip("/") in self._base_urls:
            return
        raise BaseUrlNotAllowed(f"{urlsplit(base_url).netloc} is not among AI_MODEL_BASE_URLS.")

    @asynccontextmanager
    async def open(self, choice: Mapping[str, Any], user_id: int) -> AsyncIterator[Any]:
        """The model that a run chose, for one answer. Raises `RunEnds` for one that cannot be used any more."""
        if choice.get("kind") != CREDENTIAL:
            if self._scripted is not None:
                yield self._scripted()
                return
            module = await _load("pagegate.actors.agents.scripted")
            yield module.scripted_model()
            return
        access = await self._access(choice, user_id)
        async with self._client(access) as model:
            yield model

    async def check(self, access: ModelAccess) -> None:
        """Ask the model for one word; raises `CredentialRefused`, `BaseUrlNotAllowed` (A10)."""
        self.check_base_url(access.base_url)
        providers = await _load("pagegate.actors.agents.providers")
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S), self._client(access) as model:
                await providers.ask_once(model)
        except TimeoutError:
            raise CredentialRefused("AI_MODEL_TIMEOUT", "The model did not answer in time.") from None
        except RunEnds as end:
            raise CredentialRefused(end.code, end.message) from None

    async def _access(self, choice: Mapping[str, Any], user_id: int) -> ModelAccess:
        try:
            async with self._db.read() as tx:
                row = await credentials.get_credential(tx, user_id, int(choice["credential_id"]))
        except (CredentialNotFound, KeyError, TypeError, ValueError):
            hint = "Add the credential again, or start the run with another one."
            raise RunEnds("AI_CREDENTIAL_NOT_FOUND", "The credential of this run is gone.", hint) from None
        if self._secrets is None:
            raise RunEnds("AI_CREDENTIAL_UNREADABLE", "There is no key to decrypt credentials with.", _KEY_HINT)
        try:
            key = self._secrets.decrypt(row.secret)
        except SecretUnreadable:
            message = "The credential cannot be decrypted: it was saved under another AI_SECRET_ENCRYPTION_KEY."
            raise RunEnds("AI_CREDENTIAL_UNREADABLE", message, _KEY_HINT) from None
        try:
            self.check_base_url(row.base_url)
        except BaseUrlNotAllowed as error:
            raise RunEnds("AI_MODEL_BASE_URL_NOT_ALLOWED", str(error), "Ask the operator to allow it.") from None
        return ModelAccess(row.provider, choice.get("model") or row.model, row.base_url, key)

    @asynccontextmanager
    async def _client(self, access: ModelAccess) -> AsyncIterator[Any]:
        providers = await _load("pagegate.actors.agents.providers")
        async with providers.model_of(access, self._stream_s) as model:
            yield model


_KEY_HINT = "Give the server the old key too (AI_SECRET_ENCRYPTION_PREVIOUS_KEYS), or save the credential again."


async def _load(name: str) -> Any:
    """The libraries of the providers take seconds to import: in a thread, and only when a run wants them."""
    return await asyncio.to_thread(importlib.import_module, name)
