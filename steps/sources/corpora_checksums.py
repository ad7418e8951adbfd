"""The checksum of each source's extracted text when it was last looked at: `text_digest` in the result of its step."""

CHECKSUMS: dict[str, str] = {}
