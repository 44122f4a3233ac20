"""The admin client's JVM: how large its heap may be is the operator's to say."""

from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming.ingest import rocketmq_admin
from streaming.ingest.rocketmq_admin import RocketMQAdmin
from streaming.ingest.rocketmq_jvm import RocketMQError


def test_its_heap_is_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def start(_: Path, **options: Any) -> None:
        asked.update(options)
        raise RocketMQError("not in this test")

    monkeypatch.setattr(rocketmq_admin, "RocketMQJvm", start)
    with pytest.raises(RocketMQError, match="not in this test"):
        RocketMQAdmin(Settings.load(collector={"jvm_memory": "2g"}).collector, tmp_path)
    assert asked["heap"] == "2g"
