"""The collector against real RocketMQ: 5.x with ACL 2.0 and TLS, 4.x with plain_acl.yml."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming.collector.access import AccessError, explain_tls
from streaming.collector.known_brokers import CollectorError
from streaming.collector.reading import Reading
from streaming.collector.rocketmq_admin import RocketMQAdmin
from streaming.collector.rocketmq_answers import Broker
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_reader import RoundReader
from tests.support.rocketmq_operator import Operator
from tests.support.rocketmq_server import NO_TLS, broker_lines, broker_port, start_broker, start_name_server, wait_for
from tests.support.tiers import in_proof

OPERATOR = ("operator", "operator-secret")
WATCHER = ("balancewatch", "watch-secret")
BROKER, TOPIC, GROUP = "broker-a", "orders", "orders_group"

AUTH = "org.apache.rocketmq.auth"
ACL_2 = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": OPERATOR[0], "password": OPERATOR[1]}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": OPERATOR[0], "secretKey": OPERATOR[1]}),
}

PLAIN_ACL = f"""\
accounts:
  - {{accessKey: {OPERATOR[0]}, secretKey: {OPERATOR[1]}, admin: true}}
  - {{accessKey: {WATCHER[0]}, secretKey: {WATCHER[1]}, defaultTopicPerm: DENY, defaultGroupPerm: DENY}}
"""
"""What a collector needs of a 4.x broker is to be known: no right guards what it asks."""

LOGBACK = "<configuration><root level='OFF'/></configuration>"


@dataclass
class Secured:
    """A NameServer, one broker with TOPIC and GROUP, a member of GROUP, and an operator who may do everything."""

    name_server: str
    broker: Broker
    operator: Operator
    folder: Path

    def know_watcher(self) -> None:
        """ACL 2.0: WATCHER is a user, without a right."""
        self.operator._jvm.call(self.operator._ext.createUser, self.broker.address, *WATCHER, "Normal")

    def grant(self, *rights: tuple[str, tuple[str, ...]]) -> None:
        """ACL 2.0: WATCHER may do these (resource, actions), and nothing else."""
        subject, address, jvm, ext = f"User:{WATCHER[0]}", self.broker.address, self.operator._jvm, self.operator._ext
        with contextlib.suppress(RocketMQError):  # there is none
            jvm.call(ext.deleteAcl, address, subject, "")
        for number, (resource, actions) in enumerate(rights):
            put = ext.updateAcl if number else ext.createAcl
            jvm.call(put, address, subject, [resource], list(actions), [], "Allow")

    def start_member(self) -> None:
        """A consumer of TOPIC in GROUP, which lives as long as the operator's JVM."""
        rocketmq = self.operator._jvm.java.org.apache.rocketmq
        hook = rocketmq.acl.common.AclClientRPCHook(rocketmq.acl.common.SessionCredentials(*OPERATOR))
        consumer = rocketmq.client.consumer.DefaultLitePullConsumer(GROUP, hook)
        consumer.setNamesrvAddr(self.name_server)
        consumer.setInstanceName("member")
        self.operator._jvm.call(consumer.subscribe, TOPIC, "*")
        self.operator._jvm.call(consumer.start)


def make_certificates(folder: Path) -> None:
    """Write certificates and keys: two authorities, ca and other, and a server and a client that ca has signed."""
    for name in ("ca", "other", "server", "client"):
        signed = [] if name in ("ca", "other") else ["-CA", "ca.pem", "-CAkey", "ca.key"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run([*command, *signed, *files], check=True, capture_output=True, cwd=folder)


def tls_options(folder: Path) -> dict[str, list[str]]:
    """Return the JVM options of a client, and of a server, which is a client of the NameServer too.

    A server speaks TLS and nothing else, and asks for a client's certificate.
    """
    client = [
        "-Dtls.enable=true",
        "-Dtls.test.mode.enable=false",
        "-Dtls.client.authServer=true",
        f"-Dtls.client.trustCertPath={folder / 'ca.pem'}",
        f"-Dtls.client.certPath={folder / 'client.pem'}",
        f"-Dtls.client.keyPath={folder / 'client.key'}",
    ]
    server = [
        "-Dtls.server.mode=enforcing",
        "-Dtls.server.need.client.auth=require",
        "-Dtls.server.authClient=true",
        f"-Dtls.server.certPath={folder / 'server.pem'}",
        f"-Dtls.server.keyPath={folder / 'server.key'}",
        f"-Dtls.server.trustCertPath={folder / 'ca.pem'}",
    ]
    return {"client": client, "server": [*server, *client]}


@contextlib.contextmanager
def secured(jar_set: str) -> Iterator[Secured]:
    """Start "rocketmq" (5.5.0) with ACL 2.0 and TLS, or "server-4.9.7" with plain_acl.yml."""
    jars = Settings.load().paths.jars
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="balancewatch-secured-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        if jar_set == "rocketmq":
            make_certificates(folder)
            lines, options = ACL_2, tls_options(folder)
        else:
            lines, options = {"aclEnable": "true"}, {"client": [], "server": write_plain_acl(folder / "home")}
        name_server = start_name_server(jars, folder / "name-server", jar_set=jar_set, options=options["server"])
        stack.callback(name_server.kill)
        operator = Operator(jars, folder, name_server.address, options=tuple(options["client"]))
        stack.callback(operator.close)
        name_server.wait()
        own = {**broker_lines(BROKER, broker_port(), name_server.address, folder / "store"), **lines}
        server = start_broker(jars, folder / BROKER, own, jar_set=jar_set, options=options["server"])
        stack.callback(server.kill)
        server.wait()
        operator.start(OPERATOR)
        wait_for("the broker is registered", lambda: _is_registered(operator, name_server.address, server.address))
        operator.put_topic([server.address], TOPIC, 4, 4)
        operator.put_group([server.address], GROUP)
        one = Secured(name_server.address, Broker(BROKER, 0, server.address), operator, folder)
        one.start_member()
        yield one


def write_plain_acl(home: Path) -> list[str]:
    """Write the configuration of 4.9.7; return the options of its JVMs."""
    (home / "conf").mkdir(parents=True)
    for name in ("namesrv", "broker"):
        (home / "conf" / f"logback_{name}.xml").write_text(LOGBACK)
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    return [NO_TLS, f"-Drocketmq.home.dir={home}"]


def _is_registered(operator: Operator, name_server: str, broker: str) -> bool:
    """A broker whose first try came before its connection was there is made to register by its permission."""
    if BROKER in operator.registered(name_server):
        return True
    operator.update_config(broker, {"brokerPermission": "6"})
    return False


pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

KEYS = {"acl_access_key": WATCHER[0], "acl_secret_key": WATCHER[1]}

REFUSED_KEYS = "the brokers refuse collector.acl_access_key or collector.acl_secret_key"
LEAST = (("Cluster:*", ("Get",)), ("Group:*", ("Get",)))
"""What the page says that a 5.x user needs."""


@pytest.fixture(scope="module")
def acl_2() -> Iterator[Secured]:
    with secured("rocketmq") as one:
        one.know_watcher()
        yield one


@pytest.fixture(scope="module")
def tls(acl_2: Secured) -> dict[str, Any]:
    """What a collector needs to speak TLS to it."""
    names = {"tls_ca": "ca.pem", "tls_certificate": "client.pem", "tls_key": "client.key"}
    return {"tls": True} | {key: str(acl_2.folder / name) for key, name in names.items()}


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


def test_a_user_of_5_needs_to_get_cluster_and_groups_over_tls_with_certificates_of_both_sides(
    acl_2: Secured, tls: dict[str, Any]
) -> None:
    acl_2.grant(*LEAST)
    with reader(acl_2, **KEYS, **tls) as rounds:
        wait_for("a complete round", lambda: is_whole(rounds.read()))


def test_groups_that_a_user_may_not_get_are_named_refused_and_none_has_left(
    acl_2: Secured, tls: dict[str, Any]
) -> None:
    acl_2.grant(LEAST[0])

    def refused() -> Reading | None:
        reading = rounds.read()
        return reading if any(each.reason == "refused" for each in reading.unheard) else None

    with reader(acl_2, **KEYS, **tls) as rounds:
        reading = wait_for("a group is refused", refused)
    assert (BROKER, GROUP, None, "refused") in reading.unheard
    assert reading.brokers[BROKER].unread == {GROUP}


@pytest.mark.proof
def test_a_probe_that_may_not_send_isolates_no_broker(acl_2: Secured, tls: dict[str, Any]) -> None:
    acl_2.operator.put_topic([acl_2.broker.address], "balancewatch_probe", 1, 1)
    acl_2.grant(*LEAST)
    with reader(acl_2, **KEYS, **tls, probe=True) as rounds:
        wait_for("a round", lambda: BROKER in rounds.read().brokers)
        assert [rounds.read().latencies for _ in range(2)] == [(), ()]
        acl_2.grant(*LEAST, ("Topic:balancewatch_probe", ("Pub",)))
        wait_for("it sends once it may", lambda: rounds.read().latencies)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ((WATCHER[0], "another-secret"), REFUSED_KEYS),
        *in_proof(
            [
                (("", ""), "the brokers require an ACL user, and none is set"),
                (("somebody", WATCHER[1]), REFUSED_KEYS),
            ]
        ),
    ],
)
def test_wrong_keys_of_5_are_one_sentence_without_them(
    acl_2: Secured, tls: dict[str, Any], keys: tuple[str, str], said: str
) -> None:
    refuses_keys(acl_2, keys, said, **tls)


def test_wrong_tls_settings_are_explained_and_read_nothing(acl_2: Secured, tls: dict[str, Any]) -> None:
    for wrong, said in (
        ({**tls, "tls_ca": str(acl_2.folder / "other.pem")}, "is not signed by collector.tls_ca"),
        ({"tls": False}, "set collector.tls = true"),
    ):
        settings = Settings.load(collector={"name_server": acl_2.name_server, **wrong})
        assert said in explain_tls(settings.collector, acl_2.name_server)
        with reader(acl_2, **{**wrong, "timeout_ms": 2_000}) as rounds, pytest.raises(RocketMQError):
            rounds.read()


@pytest.mark.proof
def test_a_user_of_4_needs_no_right_and_wrong_keys_are_one_sentence() -> None:
    with secured("server-4.9.7") as one:
        with reader(one, **KEYS) as rounds:
            wait_for("a complete round", lambda: is_whole(rounds.read()))
        refuses_keys(one, ("somebody", WATCHER[1]), REFUSED_KEYS)
        refuses_keys(one, ("", ""), "the brokers require an ACL user, and none is set")


@pytest.mark.parametrize("key", ["tls_ca", "tls_certificate"])
def test_a_file_that_is_no_certificate_is_one_sentence(tmp_path: Path, key: str) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    given = dict.fromkeys([key, *(["tls_key"] if key == "tls_certificate" else [])], str(bad))
    settings = Settings.load(collector={"name_server": "127.0.0.1:1", "tls": True, **given})
    with pytest.raises(CollectorError, match=f"collector.{key}.*cannot use"):
        RocketMQAdmin(settings.collector, settings.paths.jars)


def refuses_keys(one: Secured, keys: tuple[str, str], said: str, **settings: Any) -> None:
    """A reader with these keys ends with this sentence, which does not contain them."""
    given = {**dict(zip(KEYS, keys, strict=True)), **settings}

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
