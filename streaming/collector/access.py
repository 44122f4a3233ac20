"""Access to RocketMQ: refusals by ACL, and TLS.

5.x (ACL 2.0) refuses with NO_PERMISSION, 4.x (plain_acl.yml) with SYSTEM_ERROR and an AclException, for a missing
permission as for an unknown user or a wrong signature; only the remark distinguishes them.

RocketMQ's client reads its TLS settings from system properties of its JVM, and trusts any certificate in its "test
mode". It would continue without TLS if it cannot read a file, so the files are checked before it starts.
"""

import re
import socket
import ssl
from pathlib import Path

from conf.settings import Collector
from streaming.collector.known_brokers import CollectorError
from streaming.collector.rocketmq_jvm import RocketMQError, RocketMQJvm

SYSTEM_ERROR, NO_PERMISSION = 1, 16
"""ResponseCode of RocketMQ."""

_OF_A_RIGHT = re.compile(r"permission|denied|whitelist", re.IGNORECASE)
_MARKED = "(collector.acl_access_key)"


class AccessError(CollectorError):
    """The brokers refuse the ACL keys for every request. The message names the settings."""


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


CONNECT_SECONDS = 3.0


def set_up_tls(jvm: RocketMQJvm, settings: Collector) -> None:
    """Set the TLS properties before a class of RocketMQ's client is loaded. Raises CollectorError for unusable files.

    The password goes to the JVM over the loopback; it is in no command line and no file.
    """
    if not settings.tls:
        return
    files = {"tls_ca": settings.tls_ca, "tls_certificate": settings.tls_certificate, "tls_key": settings.tls_key}
    if not any(files.values()):
        return
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise CollectorError("collector.tls_certificate and collector.tls_key: set both, or neither")
    for key, path in files.items():
        if path and not Path(path).is_file():
            raise CollectorError(f"collector.{key} = {path!r}: file not found")
    properties = {
        "tls.config.file": str(jvm.folder / "tls.properties"),  # does not exist: overrides /etc/rocketmq
        "tls.test.mode.enable": "false",
        "tls.client.authServer": str(bool(settings.tls_ca)).lower(),
        "tls.client.trustCertPath": settings.tls_ca,
        "tls.client.certPath": settings.tls_certificate,
        "tls.client.keyPath": settings.tls_key,
        "tls.client.keyPassword": settings.tls_key_password.get_secret_value(),
    }
    for name, value in properties.items():
        if value:
            jvm.call(jvm.java.java.lang.System.setProperty, name, value)
    try:
        jvm.call(jvm.java.org.apache.rocketmq.remoting.netty.TlsHelper.buildSslContext, True)
    except RocketMQError as error:
        given = ", ".join(f"collector.{key}" for key, path in files.items() if path)
        raise CollectorError(f"{given}: RocketMQ's client cannot use them: {error}") from None


def explain_tls(settings: Collector, address: str) -> str:
    """Return why TLS keeps RocketMQ's client from `address` ("host:port"); empty if TLS is not the reason.

    The caller has failed to connect. Host names are not checked, as in RocketMQ's client.
    """
    host, _, port = address.strip().rpartition(":")
    where = f"{host}:{port}"
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if settings.tls and settings.tls_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(settings.tls_ca)
        if settings.tls and settings.tls_certificate:
            password = settings.tls_key_password.get_secret_value() or None
            context.load_cert_chain(settings.tls_certificate, settings.tls_key, password)
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as plain:
            try:
                with context.wrap_socket(plain) as secured:
                    if not settings.tls:
                        return f"{where} requires TLS; set collector.tls = true"
                    secured.recv(0)
            except ssl.SSLCertVerificationError as error:
                return f"{where}: its certificate is not signed by collector.tls_ca ({error.verify_message})"
            except ssl.SSLError as error:
                if settings.tls:
                    reason = error.reason or error
                    return f"{where}: TLS handshake failed with the collector.tls settings ({reason})"
            except (ConnectionResetError, EOFError):
                if settings.tls:
                    return (
                        f"{where} does not speak TLS or rejects the client certificate; "
                        "check collector.tls and collector.tls_certificate"
                    )
    except (OSError, ValueError):  # unreachable
        pass
    return ""
