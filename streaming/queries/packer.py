"""Messages into parcels: each is decoded and checked once, and goes to the shards it concerns."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from schemas.decode import decode
from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.queries.combiner import Combiner
from streaming.queries.parcel import Parcel
from streaming.queries.partition_pack import PartitionPack
from streaming.queries.shard_intake import shard_of

COLUMNS = ("topic", "partition", "offset", "ingest_time_ms", "value")


def pack(batches: Iterable[pa.RecordBatch], shards: int) -> Iterator[list[Parcel]]:
    """A parcel for each shard, in their order: what tells of groups an Arrow batch at a time, and sends with the last.

    Every shard gets one, for each is told how far the partitions were read.
    """
    packer, held = Packer(shards), None
    for batch in batches:
        if held is not None:
            yield held
        held = packer.add(batch)
    if held is not None:
        packer.share_sends(held)
        yield held


class Packer:
    """One task's part of a batch."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._combiner = Combiner()

    def add(self, batch: pa.RecordBatch) -> list[Parcel]:
        """Take in an Arrow batch, of any topics; what of it tells of groups."""
        is_send = pc.equal(batch.column("topic"), SEND_LATENCIES)
        sends = pc.sum(is_send).as_py() or 0
        if sends:
            self._combiner.add(batch if sends == batch.num_rows else batch.filter(is_send))
        parcels = [Parcel([], []) for _ in range(self._shards)]
        if sends < batch.num_rows:
            for pack in self._packs(batch.filter(pc.invert(is_send)) if sends else batch):
                for parcel, chunk in zip(parcels, pack.chunks(), strict=True):
                    parcel.chunks.append(chunk)
        return parcels

    def share_sends(self, parcels: list[Parcel]) -> None:
        """What all batches have held of sends, and of the ticks for brokers."""
        for (cluster, broker_name), of_key in self._combiner.packs():
            parcels[shard_of(cluster, broker_name or "", self._shards)].sends.append((cluster, broker_name, of_key))
        parcels[0].rejects = self._combiner.rejects
        for parcel in parcels:
            parcel.sends_read = self._combiner.sends_read()

    def _packs(self, batch: pa.RecordBatch) -> Iterable[PartitionPack]:
        packs: dict[tuple[str, int], PartitionPack] = {}
        columns = (batch.column(name).to_pylist() for name in COLUMNS)
        for topic, partition, offset, ingest_time_ms, value in zip(*columns, strict=True):
            known = packs.get((topic, partition))
            if known is None:
                known = packs[topic, partition] = PartitionPack(topic, partition, offset, self._shards)
            event, reasons = decode(topic, value, ingest_time_ms)
            if topic == CLOCKS:
                self._combiner.note_clock(partition, offset, ingest_time_ms, event)
            known.add(offset, ingest_time_ms, value, event, reasons)
        return packs.values()
