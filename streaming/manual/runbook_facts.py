"""What a runbook says that the rules know: when its alert fires, how severe it is, what explains it, what decides.

And the list of the runbooks, with the first sentence of each.
"""

import re
from dataclasses import asdict
from pathlib import Path

from streaming.manual.block import markdown_table
from streaming.text.times import span_text
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.runbook import CAUSES
from udfs.alerts.self_kinds import KEY, LIMITS, SELF_FACTS

FOLDER = Path(__file__).parents[2] / "udfs" / "alerts" / "runbooks"


def page_of(kind: str) -> Path:
    return FOLDER / f"{kind}.md"


def facts_block(kind: str) -> str:
    """Of a rule's kind, or of one about ourselves."""
    return _of_rule(kind) if kind in KIND_FACTS else _of_ourselves(kind)


def _of_rule(kind: str) -> str:
    facts = KIND_FACTS[kind]
    explained = ", ".join(f"[{one}]({one}.md)" for one in facts.inhibited_by) or "nothing"
    keys = ", ".join(f"`rules.{name}`" for name in facts.thresholds) or "none of its own"
    return "\n".join(
        [
            f"- **Seen to hold when** {_coded(facts.holds_when, facts.thresholds)}.",
            f"- **Severity:** {' or '.join(facts.severities)}.",
            f"- **Does not page while it is explained by:** {explained}.",
            f"- **Settings that decide:** {keys}, and `rules.kinds.{kind}`.",
        ]
    )


def _of_ourselves(kind: str) -> str:
    facts = SELF_FACTS[kind]
    lines = [f"- **Fires:** {_by_name(facts.fires)}", f"- **Is over:** {_by_name(facts.ends)}"]
    lines.append(f"- **Severity:** {' or '.join(facts.severities)}.")
    if facts.reaches:
        lines.append(f"- **Reaches** {facts.reaches}.")
    if facts.never:
        lines.append(f"- **Never** where `{facts.never[0]} = {str(facts.never[1]).lower()}`: {facts.never[2]}.")
    return "\n".join(lines)


def _by_name(text: str) -> str:
    """A setting by its name, for its value is the reader's own; a limit by its value."""
    limits = {name: span_text(value) if name.endswith("_ms") else str(value) for name, value in asdict(LIMITS).items()}
    return re.sub(r"\{([a-z_]+)\}", lambda found: limits[found[1]], KEY.sub(r"`\1`", text))


def _coded(text: str, names: tuple[str, ...]) -> str:
    return re.sub(r"\b(" + "|".join(names) + r")\b", r"`\1`", text) if names else text


def list_block() -> str:
    """Each kind with the first sentence of its page, and its causes, each a link."""
    return markdown_table(
        ("alert", "what is so", "causes"),
        [
            (f"[`{kind}`]({kind}.md)", _first_sentence(kind), ", ".join(f"[{one}]({kind}.md#{one})" for one in causes))
            for kind, causes in CAUSES.items()
        ],
    )


def _first_sentence(kind: str) -> str:
    """Of the paragraph under the page's title."""
    paragraph = page_of(kind).read_text().split("\n\n")[1].replace("\n", " ")
    return paragraph.split(". ")[0].rstrip(".") + "."
