"""What the settings of every process have in common, and how they are read.

Owns the order of the sources (the command line, the environment, a file, the profile's defaults) and the words of what
is wrong: all settings of a process are checked at once, and `SettingsError` tells every problem in one go, without ever
showing a secret.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from pagegate.deploy.profiles import PROFILE_DEFAULTS, Profile, ProfileDefaults


class SettingsError(Exception):
    """The environment cannot be used. `problems` has one line for each thing to repair."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ProcessSettings(BaseSettings):
    """What every process has."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    # Values for settings that no profile has a default for: what is checked while the real one is malformed or missing.
    stand_ins: ClassVar[Mapping[str, Any]] = {}

    pagegate_profile: Profile = "lite"
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _has_no_contradictions(self) -> Self:
        if problems := list(self.contradictions()):
            raise ValueError("\n".join(problems))
        return self

    def contradictions(self) -> Iterator[str]:
        """Problems between settings that are each fine by themselves, as `NAME: what to do`."""
        yield from ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base's shape
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, dotenv_settings, ProfileDefaults(settings_cls)


AnySettings = TypeVar("AnySettings", bound=ProcessSettings)


def load(kind: type[AnySettings], env_file: Path | None = None, **given: Any) -> AnySettings:
    """Read and check a process's settings; `given` (from the command line) wins over the environment.

    Raises `SettingsError` with every problem: those of single settings, and those between the others.
    """
    if env_file is not None and not env_file.is_file():
        raise SettingsError([f"{env_file}: there is no such file"])
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    values["_env_file"] = env_file
    try:
        return kind(**values)
    except ValidationError as error:
        details = error.errors(include_input=False)
        problems = [line for detail in details for line in _problems(detail)]
        raise SettingsError([*problems, *_between_the_others(kind, values, details)]) from None


def _between_the_others(kind: type[ProcessSettings], values: dict[str, Any], details: list[ErrorDetails]) -> list[str]:
    """What `contradictions` finds that has nothing to do with the settings that `details` are about."""
    wrong = {str(detail["loc"][0]) for detail in details if detail["loc"]}
    if not wrong:
        return []  # they have been told
    try:
        kind(**values | {name: _stand_in(kind, name) for name in wrong})
    except ValidationError as error:
        told = [line for detail in error.errors(include_input=False) if not detail["loc"] for line in _problems(detail)]
        return [line for line in told if not any(name.upper() in line for name in wrong)]
    return []


def _stand_in(kind: type[ProcessSettings], name: str) -> Any:
    """Any value that the setting may have."""
    if name in kind.stand_ins:
        return kind.stand_ins[name]
    field = kind.model_fields[name]
    return PROFILE_DEFAULTS[name][0] if field.is_required() else field.get_default(call_default_factory=True)


def _problems(detail: ErrorDetails) -> list[str]:
    if not detail["loc"]:  # what `contradictions` found; it names the settings itself
        return detail["msg"].removeprefix("Value error, ").splitlines()
    name, *inside = (str(part) for part in detail["loc"])
    where = name.upper() + "".join(f"[{part}]" for part in inside)
    message = detail["msg"].removeprefix("Value error, ")
    return [f"{where}: {'must be set' if detail['type'] == 'missing' else message}"]
