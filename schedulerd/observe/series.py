"""Metric families whose labels have values from outside, bounded in the number of series and the length of the labels.

Every resource manager has an equal share of the series of a family, so that one with very many queues or kinds of
resource takes none from the others. What is beyond the share is added up in one series of that resource manager, so a
sum over all series of a family stays what it would be without the bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256

from prometheus_client.metrics_core import Metric

from schedulerd.observe.families import Family
from schedulerd.observe.samples import Samples, counters, gauges

LABEL_LENGTH_MAX = 256
"""Characters of the value of a label."""

OTHER = "_other_"
"""Value of every label but `rm` in the series that has what is left out. No queue, partition or state is named so."""

_DIGEST_LENGTH = 16


class Series:
    """The series of one scrape."""

    def __init__(self, series_max: int, resource_managers: int) -> None:
        """`resource_managers` is how many there are; each has its share of `series_max`, and one series at least."""
        self._share = max(1, series_max // max(1, resource_managers))
        self.left_out: Counter[str] = Counter()
        """Series that were left out, by the name of their family; 0 for a family that has room for all."""

    def counters(self, family: Family, samples: Samples) -> Metric:
        """A family of counters; its first label is `rm`. Beyond the share of its `rm` samples are added up."""
        return counters(family, self._bounded(family, samples))

    def gauges(self, family: Family, samples: Samples) -> Metric:
        """A family of gauges; its first label is `rm`. Beyond the share of its `rm` samples are added up."""
        return gauges(family, self._bounded(family, samples))

    def _bounded(self, family: Family, samples: Samples) -> Iterator[tuple[list[str], float]]:
        counts: defaultdict[str, int] = defaultdict(int)
        sums: defaultdict[str, float] = defaultdict(float)
        self.left_out[family.name] += 0
        for labels, value in samples:
            rm_id = labels[0]
            if counts[rm_id] < self._share:
                counts[rm_id] += 1
                yield [label_value(one) for one in labels], value
            else:
                self.left_out[family.name] += 1
                sums[rm_id] += value
        for rm_id, total in sums.items():
            yield [label_value(rm_id), *[OTHER] * (len(family.labels) - 1)], total


def label_value(text: str) -> str:
    """The text as the value of a label: cut to `LABEL_LENGTH_MAX` characters, and made of valid Unicode.

    A text that is cut ends in a part of its SHA-256, so that different texts stay different series.
    """
    if len(text) <= LABEL_LENGTH_MAX and text.isascii():
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(text) > LABEL_LENGTH_MAX:
        text = f"{text[: LABEL_LENGTH_MAX - _DIGEST_LENGTH - 1]}~{sha256(data).hexdigest()[:_DIGEST_LENGTH]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
