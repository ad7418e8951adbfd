"""The recipe of a large run and its ladder as pure data and pure functions: nothing here runs, reads or plans anything."""
