"""`python -m tests.manual`: rewrite the generated parts of each page; with --check, only list the stale pages."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from streaming.text.output import say
from tests.manual import chinese
from tests.manual.block import fill_blocks
from tests.manual.runbook_facts import facts_block, findings_table, page_of
from tests.manual.tables import (
    columns_tables,
    commands_table,
    fields_tables,
    reasons_list,
    settings_table,
    tables_table,
    topics_table,
    views_table,
)
from udfs.alerts.runbook import CAUSES

ROOT = Path(__file__).parents[2]

PAGES = ("README.md", "schemas/README.md", "conf/README.md")

BLOCKS: Mapping[str, Callable[[], str]] = {
    "commands": commands_table,
    "settings": settings_table,
    "topics": topics_table,
    "fields": fields_tables,
    "reasons": reasons_list,
    "tables": tables_table,
    "columns": columns_tables,
    "views": views_table,
    "findings": findings_table,
}


def stale_pages() -> dict[Path, str]:
    """Return the pages whose generated parts are stale, with the text that they should have."""
    blocks = {name: write() for name, write in BLOCKS.items()}
    found = {ROOT / page: (ROOT / page).read_text() for page in PAGES}
    fresh = {path: fill_blocks(text, blocks) for path, text in found.items()}
    found[chinese.README] = text = chinese.README.read_text()
    fresh[chinese.README] = fill_blocks(text, {name: write() for name, write in chinese.BLOCKS.items()})
    for kind in CAUSES:
        for page, write in ((page_of(kind), facts_block), (chinese.page_of(kind), chinese.facts_block)):
            found[page] = text = page.read_text()
            fresh[page] = fill_blocks(text, {"facts": write(kind)})
    return {path: text for path, text in fresh.items() if text != found[path]}


def main() -> None:
    stale = stale_pages()
    is_check = "--check" in sys.argv[1:]
    for path, text in stale.items():
        say(f"{'stale' if is_check else 'written'}: {path.relative_to(ROOT)}")
        if not is_check:
            path.write_text(text)
    if stale and is_check:
        sys.exit("error: generated parts are stale; run `make docs`")


if __name__ == "__main__":
    main()
