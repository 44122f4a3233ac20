"""The table of Kafka's rights in conf/deploy/README.md, granted on a Kafka with ACLs: enough, and nothing too much."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.errors import TopicAuthorizationFailedError

from conf.settings import Kafka, Settings
from schemas.events import CLOCKS, EVENTS, PULLS
from streaming.check.connections import check_kafka
from streaming.kafka_io.consumer import open_consumer
from streaming.kafka_io.embedded_kafka import EmbeddedKafka, free_port
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics, open_admin

README = Path(__file__).parents[2] / "conf" / "deploy" / "README.md"
USERS = ("run", "collect")
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class GuardedKafka(EmbeddedKafka):
    """A second listener has users and ACLs; who connects to the first may do everything."""

    def _write_properties(self) -> Path:
        self.guarded = f"127.0.0.1:{free_port()}"
        path = super()._write_properties()
        lines = path.read_text().splitlines()
        first = f"PLAINTEXT://{self.bootstrap_servers}"
        lines = [line.replace(first, f"{first},SASL_PLAINTEXT://{self.guarded}") for line in lines]
        lines = [f"{line},SASL_PLAINTEXT:SASL_PLAINTEXT" if "protocol.map" in line else line for line in lines]
        users = " ".join(f'user_{name}="{name}"' for name in USERS)
        lines += [
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={LOGIN} {users};",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    @property
    def everything(self) -> Kafka:
        return Settings.load(kafka={"bootstrap_servers": self.bootstrap_servers, "options": {}}).kafka

    def settings_of(self, user: str) -> Settings:
        options = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="{user}" password="{user}";',
        }
        collector = {"name_server": "127.0.0.1:9876", "probe": True} if user == "collect" else {}
        return Settings.load(kafka={"bootstrap_servers": self.guarded, "options": options}, collector=collector)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    kafka = GuardedKafka(Settings.load().paths.jars, tmp_path_factory.mktemp("guarded"))
    try:
        create_topics(kafka.everything)
        yield kafka
    finally:
        kafka.stop()


def rights_of(process: str) -> dict[str, list[str]]:
    """Return the topics by right, as the row of the table has them, those with a canary or a probe too."""
    table = README.read_text().partition("## Kafka's rights")[2]
    row = re.search(rf"(?m)^\| `{process}` \|(.*)\|(.*)\|(.*)\|.*\|$", table)
    assert row is not None
    return dict(zip(("DESCRIBE", "READ", "WRITE"), map(topics_in, row.groups()), strict=True))


def topics_in(cell: str) -> list[str]:
    return [*EVENTS] if "five" in cell else re.findall(r"`(rocketmq\.[a-z_]+)`", cell)


def acl_of(user: str, right: str, topic: str) -> ACL:
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    return ACL(f"User:{user}", "*", ACLOperation[right], ACLPermissionType.ALLOW, pattern)


def filter_of(acl: ACL) -> ACLFilter:
    return ACLFilter(acl.principal, acl.host, acl.operation, acl.permission_type, acl.resource_pattern)


def wait_for_text(guarded: GuardedKafka, user: str, subject: str, text: str) -> None:
    """A broker applies a changed ACL a moment after the controller has accepted it."""
    deadline = time.monotonic() + 30
    while text not in (found := {one.subject: one.text for one in check_kafka(guarded.settings_of(user))})[subject]:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.mark.real
@pytest.mark.parametrize("user", ["run", "collect"])
def test_each_right_of_the_table_is_one_that_check_wants(guarded: GuardedKafka, user: str) -> None:
    acls = {(right, topic): acl_of(user, right, topic) for right, names in rights_of(user).items() for topic in names}
    rights = f"Kafka rights of `{user}`"
    with closing(open_admin(guarded.everything)) as admin:
        admin.create_acls([*acls.values()])
        wait_for_text(guarded, user, rights, "the user may read and write all that it needs")
        wait_for_text(guarded, user, "Kafka topics", "5 of 5 exist")
        assert create_topics(guarded.settings_of(user).kafka, wait_seconds=0) == []
        for (right, topic), acl in acls.items():
            if right != "DESCRIBE":  # Read and Write include it
                admin.delete_acls([filter_of(acl)])
                wait_for_text(guarded, user, rights, f"the user lacks {right.capitalize()} on {topic}; grant")
                admin.create_acls([acl])
                wait_for_text(guarded, user, rights, "all that it needs")


@pytest.mark.real
def test_events_are_read_without_a_group_and_written_only_where_the_table_allows(guarded: GuardedKafka) -> None:
    with closing(open_admin(guarded.everything)) as admin:
        admin.create_acls([acl_of("run", right, topic) for right, names in rights_of("run").items() for topic in names])
    wait_for_text(guarded, "run", "Kafka rights of `run`", "all that it needs")
    kafka = guarded.settings_of("run").kafka
    with Publisher(kafka) as publisher:
        publisher.publish_raw(CLOCKS, b"c", b"{}").get(30)
        with pytest.raises(TopicAuthorizationFailedError):
            publisher.publish_raw(PULLS, b"c", b"{}").get(30)
    with closing(open_consumer(kafka)) as consumer:
        consumer.assign([TopicPartition(CLOCKS, 0)])
        consumer.seek_to_beginning()
        assert consumer.poll(timeout_ms=30_000)
