"""What RocketMQ's refusals mean for the settings, and what of them may be printed.

5.x (ACL 2.0) refuses with NO_PERMISSION, 4.x (plain_acl.yml) with SYSTEM_ERROR and an AclException, both a user who may
not ask something and one whom they do not know, or whose signature is wrong; only the remark tells which.
"""

import re

from conf.settings import Collector
from streaming.collector.known_brokers import CollectorError
from streaming.collector.rocketmq_jvm import RocketMQError

SYSTEM_ERROR, NO_PERMISSION = 1, 16
"""ResponseCode of RocketMQ."""

_OF_A_RIGHT = re.compile(r"permission|denied|whitelist", re.IGNORECASE)
_MARKED = "(collector.acl_access_key)"


class AccessError(CollectorError):
    """Brokers refuse our keys, whatever is asked. The message names the settings."""


def is_refused(error: RocketMQError) -> bool:
    """Return whether an ACL refused the request: the user lacks a permission, or the keys are invalid."""
    is_of_4 = error.response_code == SYSTEM_ERROR and "AclException" in str(error)
    return error.response_code == NO_PERMISSION or is_of_4


def are_keys_refused(error: RocketMQError) -> bool:
    """Return whether the user is unknown or the signature is wrong. A missing permission does not count."""
    return is_refused(error) and not _OF_A_RIGHT.search(_remark(error))


def explain_refusal(settings: Collector, error: RocketMQError) -> str:
    """Return the error text for refused keys; it contains no key."""
    variables = "BALANCEWATCH_COLLECTOR__ACL_ACCESS_KEY and BALANCEWATCH_COLLECTOR__ACL_SECRET_KEY"
    if not settings.acl_access_key.get_secret_value():
        return f"the brokers require an ACL user, and none is set: set {variables}"
    return (
        "the brokers refuse collector.acl_access_key or collector.acl_secret_key "
        f'("{_remark(error)}"): set {variables} to the keys of a user that exists at the brokers'
    )


def without_keys(settings: Collector, message: str) -> str:
    """Return the message with both keys masked: a broker's answer may name them."""
    for key in (settings.acl_secret_key, settings.acl_access_key):
        if text := key.get_secret_value():
            message = re.sub(rf"(?<![\w-]){re.escape(text)}(?![\w-])", _MARKED, message)
    return message


def _remark(error: RocketMQError) -> str:
    """Return the broker's remark without exception and broker names."""
    said = re.sub(r"^.*?DESC:\s*", "", str(error))
    said = re.sub(r"\s*BROKER: \S+$", "", said)
    return re.sub(r"^(\S+Exception:\s*)+", "", said).partition(", org.apache.")[0].strip().rstrip(".")
