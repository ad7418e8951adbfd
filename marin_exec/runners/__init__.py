"""How steps are executed: one scheduler in the driver, and backends that carry one attempt to where it runs."""
