"""Medians, spread and ratios of rounds.

Called by report and goals. A figure is the median of its rounds; its spread is how far the farthest round lies
from that median, as a part of it, so that one odd round shows instead of being averaged away.
"""

from statistics import median


def summary(values):
    """{"median", "spread", "low", "high"} of the rounds that have a value, or None when there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    middle = median(known)
    low, high = min(known), max(known)
    spread = max(middle - low, high - middle) / middle if middle else 0.0
    return {"median": middle, "spread": spread, "low": low, "high": high}


def ratio(ours, theirs):
    """Median of the ratios round by round: what disturbs a round disturbs both of its sides."""
    pairs = [a / b for a, b in zip(ours, theirs) if a is not None and b]
    return median(pairs) if pairs else None


def paired(ours, theirs):
    """{"median", "low", "high"} of the ratios round by round, low and high their quartiles; None without a pair."""
    pairs = sorted(a / b for a, b in zip(ours, theirs) if a is not None and b)
    if not pairs:
        return None
    return {"median": median(pairs), "low": percentile(pairs, 0.25), "high": percentile(pairs, 0.75)}


def percentile(ordered, part):
    """The value below which `part` (0 to 1) of an ordered list lies, by the nearest rank."""
    if not ordered:
        return None
    rank = max(1, -(-len(ordered) * part // 1))
    return ordered[min(len(ordered), int(rank)) - 1]
