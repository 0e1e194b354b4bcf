"""A cache with a bound on its size."""

from collections import OrderedDict
from dataclasses import dataclass

MISSING = object()


@dataclass
class Statistics:
    """How often the cache was of use."""

    hits: int = 0
    misses: int = 0


class Cache:
    """Keeps the entries that were used last."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = OrderedDict()
        self.statistics = Statistics()

    # The newest entry is the last one.
    def get(self, key, default=None):
        value = self.entries.get(key, MISSING)
        if value is MISSING:
            self.statistics.misses += 1
            return default
        self.statistics.hits += 1
        self.entries.move_to_end(key)
        return value

    @property
    def is_full(self):
        return len(self.entries) >= self.capacity


async def load(cache, key, fetch):
    """Returns the value of a key, fetched if it is not known."""
    value = cache.get(key, MISSING)
    return await fetch(key) if value is MISSING else value
