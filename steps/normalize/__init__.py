"""Normalisation: from raw text to documents that hold the contract of `steps.documents`."""
