"""RocketMQ's JVM with a full heap: it ends, which its owner notices, and says which setting to raise."""

from contextlib import closing

import pytest

from conf.settings import Settings
from streaming.collector.rocketmq_jvm import RocketMQError, RocketMQJvm


@pytest.mark.real
def test_a_full_heap_ends_it_with_the_setting_to_raise() -> None:
    with closing(RocketMQJvm(Settings.load().paths.jars, heap="32m")) as jvm:
        with pytest.raises(RocketMQError, match=r"ran out of memory; raise collector\.jvm_memory"):
            jvm.call(jvm.java.java.lang.StringBuilder, 1 << 30)
        assert not jvm.is_alive()
