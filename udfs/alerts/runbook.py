"""The runbook of an alert: a page a kind (udfs/alerts/runbooks/KIND.md), in it a heading a cause.

Every alert leads there, by every receiver; tests/udfs/alerts/test_runbook.py holds the pages against this.
"""

from collections.abc import Mapping

from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.self_kinds import SELF_FACTS

CAUSES: Mapping[str, tuple[str, ...]] = {
    **{kind: facts.causes for kind, facts in KIND_FACTS.items()},
    **{kind: facts.causes for kind, facts in SELF_FACTS.items()},
}
"""Each kind that there is, with the causes that its page distinguishes; none where the kind says it all."""

KIND_PLACE = "{kind}"
"""Where an address has it the kind goes there, for pages that are served as files."""


def runbook_url(root: str, kind: str, cause: str | None = None) -> str | None:
    """`ROOT/KIND#CAUSE`: the page of the kind, at the part of the cause where it has one. None for an unknown kind."""
    if kind not in CAUSES:
        return None
    page = root.replace(KIND_PLACE, kind) if KIND_PLACE in root else f"{root.rstrip('/')}/{kind}"
    return f"{page}#{cause}" if cause in CAUSES[kind] else page
