"""What the data stages do and cost, beside their peers: `make bench-data`, or `python -m benchmarks.data.NAME` for one."""
