"""The collector against real RocketMQ with ACL 2.0 (5.x), plain_acl.yml (4.x) and TLS."""

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
    """A NameServer, one broker with TOPIC and GROUP, and an operator who may do everything."""

    name_server: str
    broker: Broker
    operator: Operator

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

    def start_member(self, access: tuple[str, str] | None) -> None:
        """A consumer of TOPIC in GROUP, which lives as long as the operator's JVM."""
        rocketmq = self.operator._jvm.java.org.apache.rocketmq
        hook = ()
        if access:
            hook = (rocketmq.acl.common.AclClientRPCHook(rocketmq.acl.common.SessionCredentials(*access)),)
        consumer = rocketmq.client.consumer.DefaultLitePullConsumer(GROUP, *hook)
        consumer.setNamesrvAddr(self.name_server)
        consumer.setInstanceName("member")
        self.operator._jvm.call(consumer.subscribe, TOPIC, "*")
        self.operator._jvm.call(consumer.start)


@dataclass(frozen=True)
class Authority:
    """PEM files: an authority, a server's and a client's certificate by it, PKCS#8 keys, and another authority."""

    ca: Path
    other_ca: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]

    @classmethod
    def make(cls, folder: Path) -> "Authority":
        folder.mkdir()
        ca, other = folder / "ca", folder / "other"
        for one in (ca, other):
            _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={one.name}",
                     "-keyout", f"{one}.key", "-out", f"{one}.pem")  # fmt: skip
        for name in ("server", "client"):
            path = folder / name
            _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", f"{path}.key", "-out", f"{path}.csr")  # fmt: skip
            _openssl("x509", "-req", "-in", f"{path}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
                     "-CAcreateserial", "-days", "2", "-out", f"{path}.pem")  # fmt: skip
        server, client = folder / "server", folder / "client"
        return cls(
            Path(f"{ca}.pem"),
            Path(f"{other}.pem"),
            (Path(f"{server}.pem"), Path(f"{server}.key")),
            (Path(f"{client}.pem"), Path(f"{client}.key")),
        )

    def server_options(self) -> list[str]:
        """TLS and nothing else, with a client's certificate asked for."""
        return [
            "-Dtls.server.mode=enforcing",
            "-Dtls.test.mode.enable=false",
            "-Dtls.server.need.client.auth=require",
            "-Dtls.server.authClient=true",
            f"-Dtls.server.certPath={self.server[0]}",
            f"-Dtls.server.keyPath={self.server[1]}",
            f"-Dtls.server.trustCertPath={self.ca}",
            *self.client_options(),
        ]

    def client_options(self) -> list[str]:
        """A server is a client of the NameServer, too."""
        return [
            "-Dtls.enable=true",
            "-Dtls.test.mode.enable=false",
            "-Dtls.client.authServer=true",
            f"-Dtls.client.trustCertPath={self.ca}",
            f"-Dtls.client.certPath={self.client[0]}",
            f"-Dtls.client.keyPath={self.client[1]}",
        ]


@contextlib.contextmanager
def secured(kind: str, authority: Authority | None = None) -> Iterator[Secured]:
    """`kind` is "acl_2" (5.5.0), "plain_acl" (4.9.7) or "tls" (5.5.0)."""
    jars = Settings.load().paths.jars
    folder = Path(tempfile.mkdtemp(prefix="balancewatch-secured-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        jar_set, lines, options = _guards(kind, folder, authority)
        name_server = start_name_server(jars, folder / "name-server", jar_set=jar_set, options=options)
        stack.callback(name_server.kill)
        admin_options = tuple(authority.client_options()) if authority else ()
        operator = Operator(jars, folder, name_server.address, options=admin_options)
        stack.callback(operator.close)
        name_server.wait()
        own = {**broker_lines(BROKER, broker_port(), name_server.address, folder / "store"), **lines}
        server = start_broker(jars, folder / BROKER, own, jar_set=jar_set, options=options)
        stack.callback(server.kill)
        server.wait()
        operator.start(None if kind == "tls" else OPERATOR)
        wait_for("the broker is registered", lambda: _is_registered(operator, name_server.address, server.address))
        operator.put_topic([server.address], TOPIC, 4, 4)
        operator.put_group([server.address], GROUP)
        yield Secured(name_server.address, Broker(BROKER, 0, server.address), operator)


def _guards(kind: str, folder: Path, authority: Authority | None) -> tuple[str, Mapping[str, object], Sequence[str]]:
    """Jars, lines of the broker's configuration, options of both JVMs."""
    if kind == "acl_2":
        return "rocketmq", ACL_2, (NO_TLS,)
    if kind == "tls":
        assert authority
        return "rocketmq", {}, authority.server_options()
    home = folder / "home"
    (home / "conf").mkdir(parents=True)
    for name in ("namesrv", "broker"):
        (home / "conf" / f"logback_{name}.xml").write_text(LOGBACK)
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    return "server-4.9.7", {"aclEnable": "true"}, (NO_TLS, f"-Drocketmq.home.dir={home}")


def _is_registered(operator: Operator, name_server: str, broker: str) -> bool:
    """A broker whose first try came before its connection was there is made to register by its permission."""
    if BROKER in operator.registered(name_server):
        return True
    operator.update_config(broker, {"brokerPermission": "6"})
    return False


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


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
