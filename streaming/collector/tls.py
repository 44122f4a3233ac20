"""TLS towards NameServer and brokers: what RocketMQ's client is told of it, and why a connection does not come about.

RocketMQ's client takes its TLS settings from system properties of its JVM, and trusts any certificate while it is in
its "test mode". One whose files cannot be read would go on without TLS, so they are tried before it starts.
"""

import socket
import ssl
from pathlib import Path

from conf.settings import Collector
from streaming.collector.known_brokers import CollectorError
from streaming.collector.rocketmq_jvm import RocketMQError, RocketMQJvm

CONNECT_SECONDS = 3.0


def set_up_tls(jvm: RocketMQJvm, settings: Collector) -> None:
    """Before the first class of RocketMQ's client is loaded. Raises CollectorError for files that are of no use.

    The password goes through the loopback to the JVM; it stands in no command line and in no file.
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
        "tls.config.file": str(jvm.folder / "tls.properties"),  # none: what stands in /etc/rocketmq is not meant
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
    """Why RocketMQ's client may not reach `address` ("host:port") for TLS; empty when that is not the reason."""
    host, _, port = address.strip().rpartition(":")
    try:
        peer = host, int(port)
        return _explain_secured(settings, peer) if settings.tls else _explain_plain(peer)
    except (OSError, ValueError):  # it cannot be reached at all
        return ""


def _explain_secured(settings: Collector, peer: tuple[str, int]) -> str:
    address = f"{peer[0]}:{peer[1]}"
    context = _context(settings)
    with _connect(peer) as plain:
        try:
            with context.wrap_socket(plain) as secured:
                secured.recv(0)
        except ssl.SSLCertVerificationError as error:
            return f"{address}: its certificate is not signed by collector.tls_ca ({error.verify_message})"
        except ssl.SSLError as error:
            return f"{address}: TLS handshake failed with the collector.tls settings ({error.reason or error})"
        except (ConnectionResetError, EOFError):
            return (
                f"{address} does not speak TLS or rejects the client certificate; "
                "check collector.tls and collector.tls_certificate"
            )
    return ""


def _explain_plain(peer: tuple[str, int]) -> str:
    """Without TLS: whether the server takes nothing else. One that takes both is no reason."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connect(peer) as plain, context.wrap_socket(plain):
            return f"{peer[0]}:{peer[1]} requires TLS; set collector.tls = true"
    except OSError:  # ssl.SSLError is one
        return ""


def _context(settings: Collector) -> ssl.SSLContext:
    """As RocketMQ's client has it: a host's name is not looked at."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if settings.tls_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(settings.tls_ca)
    if settings.tls_certificate:
        context.load_cert_chain(
            settings.tls_certificate, settings.tls_key, settings.tls_key_password.get_secret_value() or None
        )
    return context


def _connect(peer: tuple[str, int]) -> socket.socket:
    return socket.create_connection(peer, CONNECT_SECONDS)
