"""Model credentials over HTTP (A10, K7): saved once they were tried, never shown again, one user's own.

No answer and no log holds a key or a piece of one: what a client sends is a secret type from the first moment on.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator
from sqlalchemy import Row

from pagegate.actors.agents.arguments import OneLine
from pagegate.actors.agents.models import BaseUrlNotAllowed, CredentialRefused, ModelAccess, Models
from pagegate.actors.agents.secrets import Secrets, SecretUnreadable
from pagegate.actors.images.provider import OPENAI_URL, try_key
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Id, Params, Said, Shown, TimeMs
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import credentials as storage
from pagegate.storage import webhooks
from pagegate.storage.engine import Database, Tx

model_credentials = Noun("model credentials")

_REWRAP_PAGE = 100


def _http_address(value: str) -> str:
    if not value.startswith(("https://", "http://")) or "@" in value or len(value) > 500:
        raise ValueError("must begin with https:// or http:// and hold no user name")
    return value.rstrip("/")


class CredentialParams(Params):
    credential_id: Id


class NewCredential(Said):
    name: Annotated[OneLine, Field(max_length=80)]
    provider: Literal["openai", "anthropic"] = Field(description="`openai`: also whatever speaks its wire format.")
    model: Annotated[OneLine, Field(max_length=120)] | None = Field(
        default=None, description="What runs ask; may be left out of a credential that has an `image_model`."
    )
    key: SecretStr = Field(min_length=1, max_length=500, description="Shown to nobody again.")
    base_url: Annotated[str, AfterValidator(_http_address)] | None = None
    image_model: Annotated[OneLine, Field(max_length=120)] | None = Field(
        default=None, description="Makes pictures with the same key (generate_image); without one, this makes none."
    )
    image_keys_honoured: bool = Field(
        default=False,
        description="The provider makes and charges one picture for one Idempotency-Key, however often it is sent. "
        "False: a request that was sent and not heard of is not sent again, since that might cost a second picture.",
    )

    @model_validator(mode="after")
    def _makes_pictures(self) -> "NewCredential":
        if self.image_model is not None and self.provider != "openai":
            raise ValueError("only a provider with OpenAI's images API makes pictures: image_model needs openai")
        if self.model is None and self.image_model is None:
            raise ValueError("name a model, an image_model, or both")
        return self


class CredentialView(Shown):
    """Nothing of the key."""

    id: int
    name: str
    provider: str
    base_url: str | None
    model: str = Field(description="Empty for a credential that makes pictures only.")
    image_model: str | None
    image_keys_honoured: bool
    created_at_ms: TimeMs


class CredentialList(Shown):
    credentials: list[CredentialView]


class Rewrapped(Shown):
    """`unreadable`: credentials that none of the server's keys decrypts, by id; their users must save them again.

    `unreadable_webhooks`: the same of webhooks, by the ids of their projects.
    """

    rewrapped: int
    current: int
    unreadable: list[int]
    unreadable_webhooks: list[int] = Field(default_factory=list)


@model_credentials.route("GET", "/model-credentials")
async def list_credentials(call: Call[Nothing, Nothing]) -> CredentialList:
    """Your credentials, without their keys."""
    async with call.parts.db.read() as tx:
        rows = await storage.list_credentials(tx, call.user.user_id)
    return CredentialList(credentials=[CredentialView.model_validate(row) for row in rows])


@model_credentials.route(
    "POST",
    "/model-credentials",
    status=201,
    refusals=[
        "AI_CREDENTIAL_NAME_TAKEN",
        "AI_CREDENTIAL_REFUSED",
        "AI_CREDENTIALS_UNAVAILABLE",
        "AI_MODEL_BASE_URL_NOT_ALLOWED",
        "AI_MODEL_UNREACHABLE",
    ],
)
async def add_credential(call: Call[Nothing, NewCredential]) -> CredentialView:
    """Try a key with one short question, and save it encrypted."""
    models, secrets = _models(call.parts)
    new, key = call.body, call.body.key.get_secret_value().strip()
    try:
        await _try(models, new, key)
    except BaseUrlNotAllowed as error:
        raise ApiError("AI_MODEL_BASE_URL_NOT_ALLOWED", str(error)) from None
    except CredentialRefused as refused:
        lasting = {"AI_CREDENTIAL_REFUSED", "AI_MODEL_NOT_FOUND", "AI_MODEL_REQUEST_REFUSED", "AI_MODEL_QUOTA_EXCEEDED"}
        code = "AI_CREDENTIAL_REFUSED" if refused.code in lasting else "AI_MODEL_UNREACHABLE"
        raise ApiError(code, f"{refused} ({refused.code})") from None
    kept = storage.NewCredential(
        call.user.user_id,
        new.name,
        new.provider,
        new.base_url,
        new.model or "",
        secrets.encrypt(key),
        new.image_model,
        new.image_keys_honoured,
    )
    async with call.parts.db.write() as tx:
        return CredentialView.model_validate(await storage.add_credential(tx, kept))


async def _try(models: Models, new: NewCredential, key: str) -> None:
    """Raises `BaseUrlNotAllowed`, `CredentialRefused`. A picture would cost money, so none is asked for."""
    if new.model is not None:
        await models.check(ModelAccess(new.provider, new.model, new.base_url, key))
        return
    models.check_base_url(new.base_url)
    refused = await try_key(new.base_url or OPENAI_URL, key)
    if refused is not None:
        raise CredentialRefused(refused.code, refused.message)


@model_credentials.route(
    "DELETE",
    "/model-credentials/{credential_id}",
    status=204,
    refusals=["AI_CREDENTIAL_NOT_FOUND"],
)
async def delete_credential(call: Call[CredentialParams, Nothing]) -> Nothing:
    """Forget a credential; a run that still needs it ends with its code."""
    async with call.parts.db.write() as tx:
        if not await storage.delete_credential(tx, call.user.user_id, call.params.credential_id):
            raise ApiError("AI_CREDENTIAL_NOT_FOUND")
    return Nothing()


@model_credentials.route("POST", "/model-credentials/rewrap", access="admin", refusals=["AI_CREDENTIALS_UNAVAILABLE"])
async def rewrap(call: Call[Nothing, Nothing]) -> Rewrapped:
    """Encrypt every stored key of every user, and webhooks' secrets, with the current AI_SECRET_ENCRYPTION_KEY (K7)."""
    _, secrets = _models(call.parts)
    of_users = await _rewrap(call.parts.db, secrets, storage.list_secrets, storage.replace_secret)
    of_webhooks = await _rewrap(call.parts.db, secrets, webhooks.list_secrets, webhooks.replace_secret)
    return Rewrapped(
        rewrapped=of_users.rewrapped + of_webhooks.rewrapped,
        current=of_users.current + of_webhooks.current,
        unreadable=of_users.unreadable,
        unreadable_webhooks=of_webhooks.unreadable,
    )


async def _rewrap(
    db: Database,
    secrets: Secrets,
    list_secrets: Callable[[Tx, int, int], Awaitable[Sequence[Row[Any]]]],
    replace_secret: Callable[[Tx, int, str, str], Awaitable[bool]],
) -> Rewrapped:
    """All secrets of one table, a page in a transaction."""
    rewrapped, current, unreadable, after = 0, 0, list[int](), 0
    while True:
        async with db.write() as tx:
            rows = await list_secrets(tx, after, _REWRAP_PAGE)
            for row in rows:
                after = row.id
                try:
                    fresh = secrets.rewrap(row.secret)
                except SecretUnreadable:
                    unreadable.append(row.id)
                    continue
                if fresh is None:
                    current += 1
                elif await replace_secret(tx, row.id, row.secret, fresh):
                    rewrapped += 1
        if len(rows) < _REWRAP_PAGE:
            return Rewrapped(rewrapped=rewrapped, current=current, unreadable=unreadable)


def _models(parts: BackendParts) -> tuple[Models, Secrets]:
    if parts.models is None or parts.models.secrets is None:
        raise ApiError("AI_CREDENTIALS_UNAVAILABLE")
    return parts.models, parts.models.secrets
