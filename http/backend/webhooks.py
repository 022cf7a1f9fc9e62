"""A project's webhook over HTTP (A9): told of every run that ends. Its secret is shown once, when it is set."""

from typing import Any

from pydantic import Field

from pagegate.actors.webhook_sender import WebhookUrlNotAllowed, new_secret
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import ProjectParams, Said, Shown, TimeMs
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import webhooks as storage

webhooks = Noun("webhooks")

_DELIVERIES_SHOWN = 20


class NewWebhook(Said):
    url: str = Field(max_length=2000, description="An https:// address in the public internet.")


class WebhookWithSecret(Shown):
    url: str
    created_at_ms: TimeMs
    secret: str = Field(description="What deliveries are signed with (Standard Webhooks). Shown to nobody again.")


class DeliveryView(Shown):
    """`error` is that of the newest try that failed; `last_status` what HTTP said then, if it said anything."""

    run_id: int
    message_id: str = Field(description="The `webhook-id` of every try.")
    state: str
    attempt: int
    available_at: TimeMs
    last_status: int | None
    error: dict[str, Any] | None
    created_at_ms: TimeMs
    finished_at_ms: TimeMs | None


class WebhookView(Shown):
    url: str
    created_at_ms: TimeMs
    deliveries: list[DeliveryView] = Field(description="The newest first.")


@webhooks.route(
    "PUT",
    "/projects/{project_id}/webhook",
    refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "WEBHOOK_URL_NOT_ALLOWED", "AI_CREDENTIALS_UNAVAILABLE"],
)
async def put_webhook(call: Call[ProjectParams, NewWebhook]) -> WebhookWithSecret:
    """Let an address be told when a run of the project ends. Setting it again changes the secret too."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
    keys = call.parts.models.secrets if call.parts.models is not None else None
    if keys is None:
        raise ApiError("AI_CREDENTIALS_UNAVAILABLE")
    try:
        call.parts.webhook_addresses.check(call.body.url)
    except WebhookUrlNotAllowed as error:
        raise ApiError("WEBHOOK_URL_NOT_ALLOWED", str(error)) from None
    secret = new_secret()
    async with call.parts.db.write() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
        row = await storage.put_webhook(tx, call.params.project_id, call.body.url, keys.encrypt(secret))
    return WebhookWithSecret(url=row.url, created_at_ms=row.created_at_ms, secret=secret)


@webhooks.route(
    "GET", "/projects/{project_id}/webhook", refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "WEBHOOK_NOT_FOUND"]
)
async def get_webhook(call: Call[ProjectParams, Nothing]) -> WebhookView:
    """The project's webhook, without its secret, and what became of its newest deliveries."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")  # an address may hold a secret itself
        row = await storage.find_webhook(tx, call.params.project_id)
        if row is None:
            raise ApiError("WEBHOOK_NOT_FOUND")
        found = await storage.list_deliveries(tx, call.params.project_id, _DELIVERIES_SHOWN)
    deliveries = [DeliveryView.model_validate(one) for one in found]
    return WebhookView(url=row.url, created_at_ms=row.created_at_ms, deliveries=deliveries)


@webhooks.route(
    "DELETE",
    "/projects/{project_id}/webhook",
    status=204,
    refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "WEBHOOK_NOT_FOUND"],
)
async def delete_webhook(call: Call[ProjectParams, Nothing]) -> Nothing:
    """Tell nobody any more; what waits to be delivered ends as failed."""
    async with call.parts.db.write() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
        if not await storage.delete_webhook(tx, call.params.project_id):
            raise ApiError("WEBHOOK_NOT_FOUND")
    return Nothing()
