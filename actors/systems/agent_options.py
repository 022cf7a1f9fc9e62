"""The built-in agent's slice of the settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagegate.actors.agents.limits import AgentLimits
from pagegate.actors.agents.secrets import Secrets


@dataclass(frozen=True)
class AgentOptions:
    """Seconds, counts. Keys as `secrets.py` takes them; without one, that of the file, made when it is missing."""

    limits: AgentLimits = field(default_factory=AgentLimits)
    model_idle_s: float = 120.0
    tools_idle_s: float = 120.0
    base_urls: Sequence[str] = ()
    secret_keys: Sequence[str] = field(default=(), repr=False)
    secret_previous_keys: Sequence[str] = field(default=(), repr=False)
    secret_key_file: Path | None = None

    def secrets(self) -> Secrets | None:
        """Raises `SecretKeyInvalid`, which is a `ValueError`: the process then refuses to start."""
        if self.secret_keys:
            return Secrets([*self.secret_keys, *self.secret_previous_keys])
        if self.secret_key_file is not None:
            return Secrets.from_file(self.secret_key_file, self.secret_previous_keys)
        return None
