"""A collector before brokers with their guards up: what it needs to be allowed, and what it says when it is not."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming.collector.access import AccessError, explain_tls
from streaming.collector.known_brokers import CollectorError
from streaming.collector.reading import Reading
from streaming.collector.rocketmq_admin import RocketMQAdmin
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_reader import RoundReader
from tests.collector.secured import BROKER, GROUP, OPERATOR, TOPIC, WATCHER, Authority, Secured, secured
from tests.support.rocketmq_server import wait_for
from tests.support.tiers import in_proof

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

KEYS = {"acl_access_key": WATCHER[0], "acl_secret_key": WATCHER[1]}

REFUSED_KEYS = "the brokers refuse collector.acl_access_key or collector.acl_secret_key"
LEAST = (("Cluster:*", ("Get",)), ("Group:*", ("Get",)))
"""What the page says that a 5.x user needs."""


@pytest.fixture(scope="module")
def acl_2() -> Iterator[Secured]:
    with secured("acl_2") as one:
        one.know_watcher()
        one.start_member(OPERATOR)
        yield one


@contextlib.contextmanager
def reader(one: Secured, **settings: Any) -> Iterator[RoundReader]:
    """Rounds as a collector with these settings reads them."""
    loaded = Settings.load(collector={"name_server": one.name_server, "timeout_ms": 10_000, **settings})
    with (
        contextlib.closing(RocketMQAdmin(loaded.collector, loaded.paths.jars)) as admin,
        contextlib.closing(RoundReader(loaded.collector, admin)) as rounds,
    ):
        yield rounds


def is_whole(reading: Reading) -> bool:
    """Return whether the round has groups, members, the member's queues, offsets and routes."""
    return (
        set(reading.brokers) == {BROKER}
        and reading.unheard == ()
        and [group.consumer_group for group in reading.brokers[BROKER].groups] == [GROUP]
        and reading.brokers[BROKER].reports_producers
        and GROUP in (reading.brokers[BROKER].group_names or ())
        and any(len(info.process_queues) == 4 for infos in reading.running.values() for info in infos)
        and TOPIC in {route.topic for route in reading.routes}
    )


def test_a_user_of_5_needs_to_get_cluster_and_groups(acl_2: Secured) -> None:
    acl_2.grant(*LEAST)
    with reader(acl_2, **KEYS) as rounds:
        wait_for("a whole round", lambda: is_whole(rounds.read()))


def test_groups_that_a_user_may_not_get_are_named_refused_and_none_has_left(acl_2: Secured) -> None:
    acl_2.grant(LEAST[0])

    def refused() -> Reading | None:
        reading = rounds.read()
        return reading if any(each.reason == "refused" for each in reading.unheard) else None

    with reader(acl_2, **KEYS) as rounds:
        reading = wait_for("a group is refused", refused)
    assert (BROKER, GROUP, None, "refused") in reading.unheard
    assert reading.brokers[BROKER].unread == {GROUP}


def test_a_probe_that_may_not_send_isolates_no_broker(acl_2: Secured) -> None:
    acl_2.operator.put_topic([acl_2.broker.address], "balancewatch_probe", 1, 1)
    acl_2.grant(*LEAST)
    with reader(acl_2, **KEYS, probe=True) as rounds:
        wait_for("a round", lambda: BROKER in rounds.read().brokers)
        assert [rounds.read().latencies for _ in range(2)] == [(), ()]
        acl_2.grant(*LEAST, ("Topic:balancewatch_probe", ("Pub",)))
        wait_for("it sends once it may", lambda: rounds.read().latencies)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ((WATCHER[0], "another-secret"), REFUSED_KEYS),
        (("", ""), "the brokers require an ACL user, and none is set"),
        *in_proof([(("somebody", WATCHER[1]), REFUSED_KEYS)]),
    ],
)
def test_wrong_keys_of_5_are_one_sentence_without_them(acl_2: Secured, keys: tuple[str, str], said: str) -> None:
    refuses_keys(acl_2, keys, said)


def test_a_user_of_4_needs_no_right_and_wrong_keys_are_one_sentence() -> None:
    with secured("plain_acl") as one:
        one.start_member(OPERATOR)
        with reader(one, **KEYS) as rounds:
            wait_for("a whole round", lambda: is_whole(rounds.read()))
        refuses_keys(one, ("somebody", WATCHER[1]), REFUSED_KEYS)
        refuses_keys(one, ("", ""), "the brokers require an ACL user, and none is set")


def test_tls_with_certificates_of_both_sides_and_what_is_said_of_wrong_ones(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "certificates")
    certificate, key = map(str, authority.client)
    good = {"tls": True, "tls_ca": str(authority.ca), "tls_certificate": certificate, "tls_key": key}
    with secured("tls", authority) as one:
        one.start_member(None)
        with reader(one, **good) as rounds:
            wait_for("a whole round", lambda: is_whole(rounds.read()))
        for wrong, said in (
            ({**good, "tls_ca": str(authority.other_ca)}, "is not signed by collector.tls_ca"),
            ({"tls": False}, "set collector.tls = true"),
        ):
            settings = Settings.load(collector={"name_server": one.name_server, **wrong})
            assert said in explain_tls(settings.collector, one.name_server)
            with reader(one, **{**wrong, "timeout_ms": 2_000}) as rounds, pytest.raises(RocketMQError):
                rounds.read()


@pytest.mark.parametrize("key", ["tls_ca", "tls_certificate"])
def test_a_file_that_is_not_there_or_is_none_is_one_sentence(tmp_path: Path, key: str) -> None:
    paths = {"tls_certificate": "tls_key"}
    for path, said in ((tmp_path / "none.pem", "file not found"), (tmp_path / "bad.pem", "cannot use")):
        (tmp_path / "bad.pem").write_text("no certificate")
        given = {name: str(path) for name in (key, paths.get(key)) if name}
        settings = Settings.load(collector={"name_server": "127.0.0.1:1", "tls": True, **given})
        with pytest.raises(CollectorError, match=f"collector.{key}.*{said}"):
            RocketMQAdmin(settings.collector, settings.paths.jars)


@pytest.mark.parametrize("half", ["acl_access_key", "acl_secret_key", "tls_certificate", "tls_key"])
def test_half_a_pair_is_refused(tmp_path: Path, half: str) -> None:
    (tmp_path / "some.pem").write_text("x")
    value = str(tmp_path / "some.pem")
    settings = Settings.load(collector={"name_server": "127.0.0.1:1", "tls": True, half: value})
    with pytest.raises(CollectorError, match="set both, or neither") as raised:
        RocketMQAdmin(settings.collector, settings.paths.jars)
    assert value not in str(raised.value)


def refuses_keys(one: Secured, keys: tuple[str, str], said: str) -> None:
    """Whoever reads with these keys ends with this sentence, in which they do not stand."""
    given = dict(zip(KEYS, keys, strict=True))

    def refusal() -> str:
        try:
            rounds.read()
        except AccessError as error:
            return str(error)
        except RocketMQError:  # a busy machine: no answer in time
            return ""
        return ""

    with reader(one, **given) as rounds:
        sentence = wait_for("the keys are refused", refusal)
    assert sentence.startswith(said)
    assert not [key for key in keys if key and key in sentence.split()]
    assert keys[1] == "" or keys[1] not in sentence
