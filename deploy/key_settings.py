"""The settings of the keys of tickets (K1, K3): names, limits, where the keys are. `BackendSettings` includes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from pagegate.deploy.process_settings import ProcessSettings
from pagegate.deploy.setting_values import parse_json

if TYPE_CHECKING:
    from pagegate.actors.signing_keys import KeySources


class PreviousKeySetting(BaseModel):
    """One entry of `RUNTIME_RSA_PREVIOUS_KEYS` (K3): a file, or the PEM itself (the public part is enough)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    kid: str = Field(min_length=1, max_length=100)
    private_key_file: Path | None = None
    private_key: SecretStr | None = None
    public_key: str | None = None

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if [self.private_key_file, self.private_key, self.public_key].count(None) != 2:
            raise ValueError("needs one of private_key_file, private_key and public_key")
        return self


class KeySettings(ProcessSettings):
    """The keys of tickets (K1, K3)."""

    runtime_rsa_private_key: SecretStr | None = None
    runtime_rsa_private_key_file: Path | None = None  # else data/runtime_rsa_key.pem
    runtime_rsa_key_id: str = Field(default="default-key-1", min_length=1)
    runtime_rsa_allow_auto_generate: bool | None = None  # default: true, and false for replicas
    runtime_rsa_previous_keys: Annotated[list[PreviousKeySetting], NoDecode] = Field(default_factory=list)

    @field_validator("runtime_rsa_previous_keys", mode="before")
    @classmethod
    def _keys_from_text(cls, value: Any) -> Any:
        return parse_json(value) if isinstance(value, str) else value

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        # Libraries that only a Backend needs.
        from pagegate.actors.signing_keys import KeyRefused, load_key_ring

        sources = self.key_sources()
        if sources.pem is None and not (sources.file or sources.default_file).exists() and not sources.previous:
            return  # made at the start, or refused by who may not make one
        try:
            load_key_ring(sources)
        except KeyRefused as refused:
            yield str(refused)

    def key_sources(self, *, may_generate: bool = False) -> "KeySources":
        """Where the keys are."""
        from pagegate.actors.signing_keys import KeySources, PreviousKey

        pem = self.runtime_rsa_private_key
        return KeySources(
            key_id=self.runtime_rsa_key_id,
            pem=None if pem is None else pem.get_secret_value(),
            file=self.runtime_rsa_private_key_file,
            may_generate=may_generate,
            previous=[
                PreviousKey(
                    key.kid,
                    key.private_key_file,
                    key.public_key if key.private_key is None else key.private_key.get_secret_value(),
                )
                for key in self.runtime_rsa_previous_keys
            ],
        )
