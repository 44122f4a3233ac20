"""Real RocketMQ with its guards up: ACL 2.0 (5.x), plain_acl.yml (4.x), TLS with certificates of its own authority."""

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conf.settings import Settings
from streaming.collector.rocketmq_answers import Broker
from streaming.collector.rocketmq_jvm import RocketMQError
from tests.support.rocketmq_operator import Operator
from tests.support.rocketmq_server import NO_TLS, broker_lines, broker_port, start_broker, start_name_server, wait_for

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
