"""Whose key makes a run's pictures (A10): the credential that the run uses, else the user's newest that makes any.

Owns the choice. A credential makes pictures when its user gave it an `image_model`: nobody's money is spent for a
kind of thing that they did not say it is for. Decrypted for as long as a request takes, never kept or logged.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from pagegate.actors.agents.models import CREDENTIAL, BaseUrlNotAllowed, Models
from pagegate.actors.agents.secrets import SecretUnreadable
from pagegate.actors.images.answers import Declined
from pagegate.actors.images.provider import OPENAI_URL, ImageAccess
from pagegate.storage import credentials
from pagegate.storage.engine import Tx

_SAY_IT = "Do not change the prompt: tell the user"


class ImageCredentials:
    """`models` has the keys that decrypt, and the addresses that may be asked."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def choose(self, tx: Tx, user_id: int, run_model: Mapping[str, Any] | None) -> ImageAccess | Declined:
        """How to ask for this user's pictures. `run_model`: what the run's model is, as its prompt keeps it."""
        row = pick(await credentials.list_credentials(tx, user_id), run_model)
        if row is None:
            hint = f"{_SAY_IT} to save a model credential with an image_model; then call generate_image again."
            return Declined("AI_IMAGE_CREDENTIAL_MISSING", "No credential of the user makes pictures.", hint)
        base_url = row.base_url or OPENAI_URL
        secrets = self._models.secrets
        try:
            self._models.check_base_url(row.base_url)
            key = secrets.decrypt(row.secret) if secrets is not None else None
        except BaseUrlNotAllowed as error:
            hint = f"{_SAY_IT} that the operator has to allow the address (AI_MODEL_BASE_URLS)."
            return Declined("AI_MODEL_BASE_URL_NOT_ALLOWED", str(error), hint)
        except SecretUnreadable:
            key = None
        if key is None:
            hint = f"{_SAY_IT} to save the credential again."
            return Declined("AI_CREDENTIAL_UNREADABLE", "The credential cannot be decrypted by this server.", hint)
        return ImageAccess(row.id, base_url, row.image_model, row.image_keys_honoured, key)


def pick(rows: Sequence[Row[Any]], run_model: Mapping[str, Any] | None) -> Row[Any] | None:
    """The credential to make pictures with, of a user's, oldest first. Pure."""
    able = [row for row in rows if row.image_model]
    chosen = run_model.get("credential_id") if run_model and run_model.get("kind") == CREDENTIAL else None
    return next((row for row in able if row.id == chosen), able[-1] if able else None)
