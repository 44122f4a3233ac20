"""Glob patterns over an alert's labels: what routes, silences and static labels are made of.

Patterns are those of fnmatch, case and all: `*`, `?`, `[abc]`. Source: Python's fnmatch.
"""

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from glob import escape

LABELS = ("kind", "severity", "cluster", "consumer_group", "topic", "broker_name", "client_id", "cause")
"""What may be matched on, beside static labels."""

is_label_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}").fullmatch
"""Prometheus' syntax."""

MOST_CHARACTERS = 255

Labels = Mapping[str, str | None]
Matchers = Mapping[str, tuple[str, ...]]
"""Label to patterns, one of which must match."""


def is_match(matchers: Matchers, labels: Labels) -> bool:
    """Return whether every label named matches one of its patterns; without matchers everything matches.

    A missing label is "". A missing static label matches nothing: a silence must not widen when a name is removed.
    """
    return all(
        (label in LABELS or label in labels)
        and any(fnmatchcase(labels.get(label) or "", pattern) for pattern in patterns)
        for label, patterns in matchers.items()
    )


def incident_matchers(labels: Labels) -> Matchers:
    """Return matchers of an incident's kind, cluster, group and broker; a list of brokers is left out."""
    values = ((name, labels.get(name) or "") for name in ("kind", "cluster", "consumer_group", "broker_name"))
    return {name: (escape(value),) for name, value in values if value and "," not in value}


def describe_matchers(matchers: Matchers) -> str:
    """`cluster=prod consumer_group=bill*,pay*`; "everything" without any."""
    return " ".join(f"{label}={','.join(patterns)}" for label, patterns in sorted(matchers.items())) or "everything"


def read_matchers(text: str) -> Matchers:
    """From JSON, as the table of silences has them. Raises ValueError for what silences nothing that one could say."""
    try:
        given = json.loads(text)
    except RecursionError:
        raise ValueError("matchers nest too deep") from None
    if not isinstance(given, dict) or not given:
        raise ValueError("matchers are no JSON object with a label")
    for label, globs in given.items():
        if not is_label_name(label) or not isinstance(globs, list) or not all(isinstance(one, str) for one in globs):
            raise ValueError(f"matchers: {str(label)[:50]!r} is no label with a list of patterns")
    return {label: tuple(globs) for label, globs in given.items()}
