"""The mutes that pages print, through the relay's engine; others: tests/golden/notifications.txt."""

from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.relay.mutes import make_mutes
from streaming.text.times import HOUR, MINUTE, SECOND
from tests.relay.stage import Scripted, Stage
from tests.support.markdown import Block, blocks_of

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "udfs" / "alerts" / "runbooks" / "group_offline.md", ROOT / "streaming" / "relay" / "README.md")

PRINTED = [block for page in PAGES for block in blocks_of(page, "toml") if "[[mutes]]" in block.text]


@pytest.mark.parametrize("group_is_muted", [True, False])
@pytest.mark.parametrize("block", PRINTED, ids=str)
def test_a_printed_mute_keeps_a_group_quiet_that_goes_offline_in_its_window_and_notifies_once_after_it(
    block: Block, group_is_muted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TOML exactly as printed. Another group is notified at once."""
    (tmp_path / "site.toml").write_text(block.text)
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(tmp_path / "site.toml"))
    settings = Settings.load()
    mutes = make_mutes(settings.mutes)
    pattern = mutes[0].matchers["consumer_group"][-1]
    group = pattern.replace("*", "night") if group_is_muted else "orders"

    pager = Scripted()
    stage = Stage({"pager": pager}, mutes=mutes)
    window = mutes[0].next_window(stage.now_ms)
    stage.now_ms = window.starts_at_ms
    stage.run(30 * MINUTE / SECOND)
    offline = {"kind": "group_offline", "cluster": "prod-1", "consumer_group": group}
    stage.put("m", run=HOUR / SECOND, **offline)
    stage.now_ms = window.ends_at_ms - 5 * MINUTE
    stage.run((5 * MINUTE - 5 * SECOND) / SECOND)
    notified = [(notice.kind, notice.status, notice.consumer_group) for _, notice in pager.took()]
    assert notified == ([] if group_is_muted else [("group_offline", "firing", group)])

    stage.run(600)
    notified = [(notice.kind, notice.status, notice.consumer_group) for _, notice in pager.took()]
    assert notified == [("group_offline", "firing", group)]


def test_both_pages_print_a_mute() -> None:
    assert [block.page for block in PRINTED] == list(PAGES)
