"""Benchmarks of the model, its training, the ladder and the forecast: `make bench-model` runs all, and each runs as a module."""
