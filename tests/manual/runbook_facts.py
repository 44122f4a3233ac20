"""The facts block of each runbook, and the README's table of findings, from the rules' facts."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from streaming.text.times import span_text
from tests.lab.score.bounds import BOUNDS_MS, BOUNDS_OF_KIND_MS
from tests.manual.block import markdown_table
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.self_kinds import KEY, LIMITS, SELF_FACTS

ROOT = Path(__file__).parents[2]
RUNBOOKS = "udfs/alerts/runbooks"

OF_MONITORING = ("slow_collector", "clock_skew", "rule_failed")
"""Kinds that rules find and that concern the monitoring, not RocketMQ."""


def page_of(kind: str) -> Path:
    return ROOT / RUNBOOKS / f"{kind}.md"


def facts_block(kind: str) -> str:
    """Return when the kind's alert fires, how severe it is, what inhibits it and which settings decide."""
    if kind in SELF_FACTS:
        return _own_facts(kind)
    facts = KIND_FACTS[kind]
    explained = ", ".join(f"[{cause}]({cause}.md)" for cause in facts.inhibited_by) or "nothing"
    keys = ", ".join(f"`rules.{name}`" for name in facts.thresholds) or "no threshold"
    condition = facts.holds_when
    if facts.thresholds:
        condition = re.sub(rf"\b({'|'.join(facts.thresholds)})\b", r"`\1`", condition)
    return "\n".join(
        [
            f"- **Holds when** {condition}.",
            f"- **Severity:** {_any_of(facts.severities)}.",
            f"- **Inhibited by:** {explained}.",
            f"- **Settings that decide:** {keys}, and `rules.kinds.{kind}`.",
        ]
    )


def _any_of(severities: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(severities[:-1]), severities[-1])))


def _own_facts(kind: str) -> str:
    facts = SELF_FACTS[kind]
    limits = {name: span_text(value) if name.endswith("_ms") else str(value) for name, value in asdict(LIMITS).items()}

    def by_name(text: str) -> str:
        """Return the text with each setting as its name, because its value differs, and each limit as its value."""
        return re.sub(r"\{([a-z_]+)\}", lambda found: limits[found[1]], KEY.sub(r"`\1`", text))

    lines = [f"- **Fires:** {by_name(facts.fires)}", f"- **Resolves:** {by_name(facts.ends)}"]
    lines.append(f"- **Severity:** {_any_of(facts.severities)}.")
    if facts.reaches:
        lines.append(f"- **Reaches** {facts.reaches}.")
    if facts.never:
        lines.append(f"- **Never** where `{facts.never[0]} = {str(facts.never[1]).lower()}`: {facts.never[2]}.")
    return "\n".join(lines)


def findings_table() -> str:
    """Return each kind with its severity, meaning and bound; the kinds about the monitoring itself share a row."""
    of_starved = BOUNDS_MS.values()
    bound_of = {kind: span_text(bound_ms) for kind, bound_ms in BOUNDS_OF_KIND_MS.items()}
    bound_of["starved_queue"] = f"{span_text(min(of_starved))} to {span_text(max(of_starved))}"
    rows = [
        (link(kind), ", ".join(facts.severities), first_sentence(kind), bound_of.get(kind, ""))
        for kind, facts in KIND_FACTS.items()
        if kind not in OF_MONITORING
    ]
    own = ", ".join(map(link, (*OF_MONITORING, *SELF_FACTS)))
    rows.append((own, "", "The monitoring itself: collector, clocks, rules, events, deliveries.", ""))
    return markdown_table(("alert", "severity", "meaning", "detectable after"), rows)


def link(kind: str) -> str:
    return f"[`{kind}`]({RUNBOOKS}/{kind}.md)"


def first_sentence(kind: str) -> str:
    """Return the first sentence below the title of the kind's runbook, without its links."""
    paragraph = page_of(kind).read_text().split("\n\n")[1].replace("\n", " ")
    sentence = re.split(r"(?<=[.])\s", paragraph, maxsplit=1)[0]
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence)
