"""Batched multi-agent tree search: one tree, one loop, and rules as arguments."""

from nonzero.search.backup import Averaging
from nonzero.search.expand import Expansion
from nonzero.search.presets import PRESETS, Rules, preset
from nonzero.search.run import search
from nonzero.search.select import Selection
from nonzero.types import SearchResult

__all__ = ["PRESETS", "Averaging", "Expansion", "Rules", "SearchResult", "Selection", "preset", "search"]
