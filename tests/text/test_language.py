"""Alerts in Chinese: no English sentence reaches a row, whichever scenario is played."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.self_monitoring.self_alerts import SelfAlert, SelfAlerts
from streaming.spark.session import write_archive
from streaming.text.language import translate, translations_of
from tests.check.test_self_kinds import ALERTS
from tests.support.chinese import HAN, is_chinese
from tests.support.offenders import assert_none
from tests.support.plays import Play, each_play
from udfs.alerts.phrase import Phrase, phrase, plural, some_of


def test_a_list_and_a_number_read_naturally_in_both_languages() -> None:
    lost = phrase("No client consumes {queues}.", queues=some_of([f"broker-a:{number}" for number in range(6)]))
    one = plural(1, "{number} queue", "{number} queues")
    assert str(lost) == "No client consumes broker-a:0, broker-a:1, broker-a:2, broker-a:3 and 2 more."
    assert [str(one), str(plural(2, "{number} queue", "{number} queues"))] == ["1 queue", "2 queues"]
    assert translate(one, "zh") == "1 个队列"
    assert translate(phrase("{queues} of topic {topic}", queues=["a:0", "a:1", "b:0"], topic="t"), "zh") == (
        "主题 t 的 a:0、a:1、b:0"
    )


def test_a_name_is_no_template_and_a_text_without_a_translation_is_english() -> None:
    name = "${HOST}@{0}"
    assert translate(phrase("{client_id} on {host}", client_id=name, host="h"), "zh") == f"{name} (h)"
    assert translate("as it is", "zh") == "as it is"
    assert translate(Phrase("No such text of {name}.", {"name": "x"}), "zh") == "No such text of x."


@each_play
@pytest.mark.replay
def test_no_alert_of_a_scenario_keeps_an_english_sentence(play: Play) -> None:
    texts = {translate(text, "zh") for text in play.texts}
    assert_none(text for text in texts if not is_chinese(text))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.kind)
def test_alerts_on_the_service_itself_are_chinese(alert: SelfAlert) -> None:
    alerts = SelfAlerts("zh")
    row = alerts.open(alert, 1)
    alerts.note_row(row)
    (known,) = alerts
    over = alerts.resolve(known, 2)
    assert_none(
        row[name] for name in ("summary", "advice") if not re.search(HAN, row[name]) and "balancewatch" not in row[name]
    )
    assert over["summary"].startswith("已恢复：")
    assert over["advice"] == "无需处理。"


def test_executors_translate_from_the_zip_that_they_get(tmp_path: Path) -> None:
    archive = write_archive()
    code = "from streaming.text.language import *; import conf; print(conf.__file__, len(translations_of('zh')))"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    )
    assert answer.stdout.split()[0].startswith(str(archive)), answer.stderr
    assert int(answer.stdout.split()[1]) == len(translations_of("zh"))
