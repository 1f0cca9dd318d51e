"""The benchmark: servers side by side in interleaved rounds.

`bench/run` calls main; main reads peers.toml (peers) and the table of workloads (workloads), lets runner
measure, and hands what was measured to report.
"""
