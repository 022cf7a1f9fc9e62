"""The two profiles, lite and regular: the defaults of every setting that differs between them (SPEC's table).

Owns the table and the settings source that reads it, after everything that was really set.
"""

from typing import Any, Literal

from pydantic_settings import PydanticBaseSettingsSource

Profile = Literal["lite", "regular"]

_MISSING_IN_REGULAR = object()

# What the profile decides: (lite, regular). A value that regular leaves open must be given there.
PROFILE_DEFAULTS: dict[str, tuple[Any, Any]] = {
    "database_url": ("sqlite+aiosqlite:///data/pagegate.db", _MISSING_IN_REGULAR),
    "redis_url": ("memory://lite", _MISSING_IN_REGULAR),
    "runtime_base_urls": (_MISSING_IN_REGULAR, _MISSING_IN_REGULAR),
    "render_workers_config": (_MISSING_IN_REGULAR, _MISSING_IN_REGULAR),
    "ai_page_mutation_concurrency": (1, 2),
    "ai_page_mutation_max_active_jobs": (16, 64),
    "component_mutation_concurrency": (1, 2),
    "component_mutation_max_active_jobs": (16, 64),
    "image_generation_concurrency": (1, 2),
    "runtime_check_max_inflight": (8, 16),
    "runtime_light_max_inflight": (8, 16),
    "render_global_concurrency": (1, 2),
    "render_workspace_concurrency": (1, 2),
    "runtime_vite_task_concurrency": (1, 2),
    "runtime_build_worker_max_old_space_mb": (1024, 2048),
}


class ProfileDefaults(PydanticBaseSettingsSource):
    """The last source: fills what nothing else gave with the profile's defaults."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - the base's shape
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        regular = str(self.current_state.get("pagegate_profile", "lite")).lower() == "regular"
        chosen = {name: pair[regular] for name, pair in PROFILE_DEFAULTS.items()}
        return {
            name: value
            for name, value in chosen.items()
            if value is not _MISSING_IN_REGULAR and name in self.settings_cls.model_fields
        }
