"""Muted alerts through the relay's engine, and the settings that pages print."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from conf.oncall import Mute as MuteSettings
from conf.settings import Settings
from streaming.relay.mutes import Mute, make_mutes
from streaming.text.times import HOUR, MINUTE, SECOND
from tests.relay.stage import START_MS, Scripted, Stage
from tests.support.markdown import Block, blocks_of

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "udfs" / "alerts" / "runbooks" / "group_offline.md", ROOT / "streaming" / "relay" / "README.md")

PRINTED = [block for page in PAGES for block in blocks_of(page, "toml") if "[[mutes]]" in block.text]


def muted_stage(first_minute: int, last_minute: int, **match: Any) -> tuple[Stage, Scripted]:
    """A mute from one minute to another, counted from the minute in which the stage begins."""
    start, end = (
        datetime.fromtimestamp((START_MS + minute * MINUTE) / 1000, ZoneInfo("Asia/Shanghai"))
        for minute in (first_minute, last_minute)
    )
    given = {"name": "m", "match": match or {"cluster": "*"}, "from": f"{start:%H:%M}", "to": f"{end:%H:%M}"}
    pager = Scripted()
    mutes = make_mutes([MuteSettings.model_validate(given | {"time_zone": "Asia/Shanghai"})])
    return Stage({"pager": pager}, mutes=mutes), pager


def window_of(stage: Stage) -> tuple[float, float]:
    """Start and end of the window that is open or next, in seconds from now."""
    (mute,) = stage.mutes
    assert isinstance(mute, Mute)
    window = mute.next_window(stage.now_ms)
    return (window.starts_at_ms - stage.now_ms) / SECOND, (window.ends_at_ms - stage.now_ms) / SECOND


def reasons(stage: Stage) -> list[tuple[str, str, str]]:
    return [(row["outcome"], row["status"], row["reason"]) for row in stage.log]


@pytest.mark.parametrize("crashes", [False, True])
def test_a_muted_alert_is_recorded_and_notified_once_when_its_window_ends(crashes: bool) -> None:
    stage, pager = muted_stage(0, 30)
    _, end_s = window_of(stage)
    stage.put("m", run=end_s - 5)
    assert pager.calls == []
    assert reasons(stage) == [("SILENCED", "firing", "mute 'm' until 2026-09-21T22:43+08:00")]
    if crashes:
        stage.crash()
        stage.run(60)
        stage.restart()
    stage.run(3600 if crashes else 24 * 3600)
    assert pager.notified() == ["m firing"]
    end_ms = START_MS + round(end_s * SECOND)
    notified_at_ms = pager.took()[0][0]
    assert end_ms <= notified_at_ms <= end_ms + (60 if crashes else 3) * SECOND


def test_a_clock_that_is_set_back_into_the_window_or_out_of_it_is_followed() -> None:
    stage, pager = muted_stage(0, 30)
    stage.put("m", run=60)
    stage.set_by_ms = -HOUR
    stage.run(60)
    assert pager.notified() == ["m firing"]


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
