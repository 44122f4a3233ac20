"""The 5.x proxy, in cluster mode: where gRPC clients connect."""

import json
from pathlib import Path

from tests.rocketmq_broker import CLUSTER
from tests.rocketmq_server import Server

MAIN = "org.apache.rocketmq.proxy.ProxyStartup"


def start_proxy(jars: Path, folder: Path, port: int, remoting_port: int, name_server: str) -> Server:
    """gRPC on `port`. Clients are told the port that they came by, so that they stay on their links."""
    config = folder.with_suffix(".json")
    config.write_text(
        json.dumps(
            {
                "rocketMQClusterName": CLUSTER,
                "namesrvAddr": name_server,
                "proxyMode": "CLUSTER",
                "grpcServerPort": port,
                "remotingListenPort": remoting_port,
                "useEndpointPortFromRequest": True,
                "localServeAddr": "127.0.0.1",
                "grpcThreadPoolNums": 8,
            }
        )
    )
    return Server(jars, folder, port, [MAIN, "-pc", str(config)], "256m", jar_set="proxy")
