"""Watch the settings files and reload rules and notification settings. An error is logged once.

A file counts as changed once two reads in a row are equal, so a file that is being written is left alone. `look` never
raises.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from conf.settings import Settings, SettingsError

LOOK_SECONDS = 2.0

MOST_BYTES = 4 << 20
"""Bytes of a file that are compared."""

_NOTIFICATION = ("max_firing_per_kind", "receivers", "routes")
"""The keys of `[oncall]` that are reloaded at run time."""

log = structlog.get_logger()


class SettingsReload:
    """Watches the files that `settings` came from."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: dict[Path, str | None] = {}  # the files may have changed since they were read: compared once more
        self._next = _digests(settings.files())
        self._looked = time.monotonic()

    def look(self) -> Settings | None:
        """Return the settings if their rules or notification settings changed, else None."""
        digests = _digests(self._settings.files())
        is_settled, self._next = digests == self._next, digests
        if not is_settled or digests == self._seen:
            return None
        self._seen = digests
        try:
            settings = self._settings.load_again()
        except SettingsError as error:
            log.error("settings invalid, keeping the previous ones", reason=str(error))
            return None
        before = self._settings
        oncall = before.oncall.model_copy(update={name: getattr(settings.oncall, name) for name in _NOTIFICATION})
        sections = {"rules": settings.rules, "oncall": oncall, "labels": settings.labels, "mutes": settings.mutes}
        taken = before.model_copy(update=sections)
        waiting = [name for name in type(settings).model_fields if getattr(settings, name) != getattr(taken, name)]
        if waiting:
            log.warning("settings changed, restart required", sections=sorted(waiting))
        changes = list_changes(before, taken)
        for key, old, new in changes:
            log.info("rule changed", key=key, before=old, after=new)
        keys = [f"oncall.{name}" for name in _NOTIFICATION if getattr(before.oncall, name) != getattr(oncall, name)]
        keys += [name for name in ("labels", "mutes") if getattr(before, name) != getattr(taken, name)]
        if keys:
            log.info("notification settings changed", keys=keys)  # no values: they may hold secrets
        self._settings = taken
        return taken if changes or keys else None

    def look_now_and_then(self) -> Settings | None:
        """As `look`, once in LOOK_SECONDS; None in between."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return None
        self._looked = time.monotonic()
        return self.look()


def notification_settings(settings: Settings) -> tuple[Any, ...]:
    """Return what the relay reloads."""
    return settings.oncall, settings.mutes, settings.labels


def list_changes(before: Settings, after: Settings) -> list[tuple[str, Any, Any]]:
    """Return key, old and new value of each changed rule, such as `rules.overrides[2].settle_ms`; None for no value."""
    old, new = (
        dict(_leaves("rules", settings.rules.model_dump(exclude_none=True, exclude={"file"})))
        for settings in (before, after)
    )
    return [
        (key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)
    ]


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            yield from _leaves(f"{key}[{number}]", inner)
    else:
        yield key, value


def _digests(files: list[Path]) -> dict[Path, str | None]:
    """Return the digest of each file, None for an unreadable or missing one."""
    digests: dict[Path, str | None] = dict.fromkeys(files)
    for path in files:
        with suppress(OSError), path.open("rb") as file:
            digests[path] = hashlib.sha256(file.read(MOST_BYTES)).hexdigest()
    return digests
