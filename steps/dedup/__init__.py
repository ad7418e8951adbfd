"""Duplicate removal: judgements only, as sparse tables beside the documents; nothing is deleted here."""
