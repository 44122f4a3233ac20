"""The texts that a user reads keep CONTRIBUTING's rules for words (tests/support/words.py)."""

import subprocess
from pathlib import Path

import pytest

from tests.support import words
from tests.support.offenders import assert_none

PAGE = """\
# The DeliveryLog of RocketMQ

Nobody consumes this queue.
`nobody` is code, and a committed offset stands still.

```console
$ echo nobody
```

| nobody | {long} |
|---|---|

{long}
"""
LONG = " ".join(["word"] * 36)

CASES = {
    "README.md": (
        PAGE.format(long=LONG),
        {
            "README.md:1: CamelCase 'DeliveryLog'",
            "README.md:3: banned 'Nobody'",
            "README.md:10: banned 'nobody'",
            "README.md:13: 36 words",
        },
    ),
    "streaming/texts.py": (
        '"""Nobody reads a docstring here."""\n'
        'SUMMARY = "what it was told"\nQUERY = "SELECT whole FROM nobody"\nNAME = "nobody"\n'
        f'OTHER = f"{{NAME}} {LONG}"\n',
        {
            "streaming/texts.py:1: banned 'Nobody'",
            "streaming/texts.py:2: banned 'told'",
            "streaming/texts.py:4: banned 'nobody'",
            "streaming/texts.py:5: 37 words",
        },
    ),
    "udfs/brokers/texts.py": ('"""Nobody."""\nNAME = "nobody"\n', {"udfs/brokers/texts.py:2: banned 'nobody'"}),
    "streaming/board/templates/page.html": (
        '{% call parts.panel("story", "IncidentStory", "what it told") %}\n<p>Nobody consumes {{ queue }}.</p>\n',
        {
            "streaming/board/templates/page.html:1: CamelCase 'IncidentStory'",
            "streaming/board/templates/page.html:1: banned 'told'",
            "streaming/board/templates/page.html:2: banned 'Nobody'",
        },
    ),
    "streaming/help.py": (
        'def run():\n    """Tell everybody.\n\n    Example: balancewatch run\n    """\n',
        {"streaming/help.py:2: banned 'Tell'"},
    ),
    "streaming/board/web/assets/page.js": (
        'box.textContent = "The board has not heard";  // of its own\n',
        {
            "streaming/board/web/assets/page.js:1: banned 'heard'",
            "streaming/board/web/assets/page.js:1: banned 'of its own'",
        },
    ),
    "streaming/agent/Hook.java": (
        '/** What it tells. */\nLOG.warning("nobody listens");\n',
        {"streaming/agent/Hook.java:1: banned 'tells'", "streaming/agent/Hook.java:2: banned 'nobody'"},
    ),
    "streaming/flow.svg": (
        '<text x="1">events are mended</text>\n',
        {"streaming/flow.svg:1: banned 'mended'"},
    ),
    "Makefile": ("score: ## look at the rules\n\techo nobody\n", {"Makefile:1: banned 'look at'"}),
    "tests/texts.py": ('SUMMARY = "what it was told"\n', set()),
    "conf/defaults.toml": (
        '# Seconds for which a client\n# is left in peace.\npause = 1\nkey = "x"  # nobody has it\n',
        {"conf/defaults.toml:1: banned 'in peace'", "conf/defaults.toml:4: banned 'nobody'"},
    ),
    "conf/rules.yml": (
        'annotations:\n  summary: "Nobody consumes it."\n  description: >-\n    The whole\n    query.\n',
        {"conf/rules.yml:2: banned 'Nobody'", "conf/rules.yml:3: banned 'whole'"},
    ),
    "conf/board.json": (
        '{\n  "title": "QueueState",\n  "description": "what is so",\n  "expr": "nobody there"\n}\n',
        {"conf/board.json:2: CamelCase 'QueueState'", "conf/board.json:3: banned 'what is so'"},
    ),
    "streaming/simulator/scenarios/twins.toml": (
        'description = "Nobody pulls."\n',
        {"streaming/simulator/scenarios/twins.toml:1: banned 'Nobody'"},
    ),
}
"""A file's path → its text and its offences."""


def test_no_text_of_the_product_breaks_the_rules() -> None:
    assert_none(words.offenders())


def test_every_exception_is_a_banned_phrase_with_a_reason() -> None:
    assert_none(phrase for phrase, reason in words.ALLOWED.items() if not words.BANNED.search(phrase) or not reason)


@pytest.mark.parametrize("path", CASES)
def test_an_offence_is_found_in_each_kind_of_text(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, offences = CASES[path]
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert {": ".join(offence.split(": ")[:2]) for offence in words.offenders()} == offences
