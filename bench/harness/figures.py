"""Looks figures up in a result. Called by report, goals and plots, which all need the same few questions answered."""

from . import stats


def tables(result):
    """(workload, load) of every table."""
    return [(workload, load) for workload in result["workloads"] for load in workload["loads"]]


def load_of(result, workload, load):
    for one, two in tables(result):
        if one["name"] == workload and two["name"] == load:
            return two
    return None


def rounds(row, figure):
    """The rounds' values of a figure; none for a row that was refused."""
    return [] if row is None or row["refused"] else [one[figure] for one in row["rounds"]]


def summary(row, figure):
    return stats.summary(rounds(row, figure))


def middle(row, figure):
    found = summary(row, figure)
    return found["median"] if found else None


def row_of(load, server, variant=""):
    for row in load["rows"] if load else []:
        if row["server"] == server and row["variant"] == variant:
            return row
    return None


def base_row(load, role, variant=""):
    """The row of Howdah or of the floor that a row of this variant is compared with."""
    found = [row for row in load["rows"] if row["role"] == role]
    same = [row for row in found if row["variant"] == variant]
    return (same or found or [None])[0]


def of_floor(row, floor):
    """CPU time against that of the floor's two halves: the front with a canned answer, and a worker fed from memory."""
    both = [one.get("floor_us", one["cpu_us"]) for one in floor["rounds"]] if floor and not floor["refused"] else []
    return stats.ratio(rounds(row, "cpu_us"), both)


def paired(row, other, figure):
    return stats.paired(rounds(row, figure), rounds(other, figure))


def ratio(row, other, figure):
    return stats.ratio(rounds(row, figure), rounds(other, figure))
