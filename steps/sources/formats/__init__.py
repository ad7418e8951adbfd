"""Formats of documents in packages: a file's bytes to the plain text that a person would read, one module a format."""
