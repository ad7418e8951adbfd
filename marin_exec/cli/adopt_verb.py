"""The verb that prints the digest of data that is to be adopted where it lies."""

import os

import click

from marin_exec.cli.options import HELP, json_option, print_json
from marin_exec.errors import ConfigError


@click.command(context_settings=HELP)
@click.argument("path")
@json_option
def adopt(path: str, as_json: bool) -> None:
    """Print the digest of the files below PATH, a directory or URL.

    It stands in an experiment's `adopt(PATH, DIGEST, name=...)`. Every byte is read; nothing is written or moved.
    """
    from marin_exec.adopted import files_at
    from marin_exec.store.manifest import output_digest

    if not path.strip():
        raise ConfigError(f"adopt {path!r}: no path; give a directory or a URL")
    full = path if "://" in path else os.path.abspath(path)
    found = files_at(full)
    digest, size = output_digest(found.files, None), sum(each.size_bytes for each in found.files)
    if as_json:
        print_json({"path": found.path, "digest": digest, "files": len(found.files), "bytes": size})
        return
    click.echo(f"{len(found.files)} files, {size:,} bytes in {found.path}", err=True)
    click.echo(digest)
