"""Sources: where raw text comes from. Every kind here writes `raw-NNNNN.parquet` (see `steps.sources.raw`)."""
