"""Figures of many subjects as gauges: the first `limit` subjects have series of their own, the rest one sum a cluster.

Telling it of one subject costs that subject's figures, however many others there are. `flush` exports what has changed.
"""

from collections import Counter
from collections.abc import Mapping

from streaming.metrics.cardinality import OTHER, Cardinality, clean
from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.metric import Gauge, Label

Subject = tuple[str, str]
"""A cluster and a name in it."""

Figure = tuple[Gauge, tuple[tuple[Label, str], ...]]
"""A gauge and those of its labels that do not name the subject."""


class Totals:
    """One kind of subject, whose name is the label `label`."""

    def __init__(self, exporter: Exporter, label: Label, clusters: Clusters, limit: int) -> None:
        self._exporter, self._label, self._clusters = exporter, label, clusters
        self._folding: Cardinality[Subject] = Cardinality(limit)
        self._figures: dict[Subject, Mapping[Figure, int]] = {}
        self._sums: dict[Subject, Counter[Figure]] = {}
        self._subjects: Counter[Subject] = Counter()
        self._changed: set[tuple[Subject, Figure]] = set()
        self._exported: set[tuple[Subject, Figure]] = set()

    @property
    def folded(self) -> int:
        """Subjects without a series of their own."""
        return self._folding.folded

    def put(self, subject: Subject, figures: Mapping[Figure, int]) -> None:
        """These are the subject's figures now."""
        before = self._figures.get(subject)
        if before is None:
            self._clusters.join(subject[0])
        series = self._series_of(subject)
        if before is None:
            self._subjects[series] += 1
            before = {}
        self._figures[subject] = figures
        self._move(series, before, figures)

    def remove(self, subject: Subject) -> None:
        """It is no longer there; its series go, unless others share them."""
        before = self._figures.pop(subject, None)
        if before is None:
            return
        series = self._series_of(subject)
        self._subjects[series] -= 1
        if self._subjects[series]:
            self._move(series, before, {})
        else:
            del self._subjects[series]
            for figure in self._sums.pop(series):
                if (series, figure) in self._exported:
                    self._exported.discard((series, figure))
                    gauge, extra = figure
                    self._exporter.drop(gauge, **self._labels(series), **dict(extra))
                self._changed.discard((series, figure))
        self._folding.let_go(subject)
        self._clusters.leave(subject[0])

    def flush(self) -> None:
        """Export what has changed since the last time."""
        for series, figure in self._changed:
            gauge, extra = figure
            self._exporter.set(gauge, self._sums[series][figure], **self._labels(series), **dict(extra))
        self._exported |= self._changed
        self._changed.clear()

    def _move(self, series: Subject, before: Mapping[Figure, int], after: Mapping[Figure, int]) -> None:
        sums = self._sums.setdefault(series, Counter())
        for figure in before.keys() | after.keys():
            change = after.get(figure, 0) - before.get(figure, 0)
            if change or figure not in sums:
                sums[figure] += change
                self._changed.add((series, figure))

    def _series_of(self, subject: Subject) -> Subject:
        cluster, name = subject
        is_named = self._clusters.is_named(cluster)
        if is_named and name != OTHER and self._folding.is_named(subject):
            return clean(cluster), clean(name)
        return clean(cluster) if is_named and cluster != OTHER else OTHER, OTHER

    def _labels(self, series: Subject) -> dict[str, str]:
        cluster, name = series
        return {"cluster": cluster, self._label: name}
