"""Vectors describe documents and remove none: texts that differ in a number are near in any embedding, and not the same."""

import dataclasses

import numpy as np

from steps.decontaminate.ngrams import DecontaminateConfig
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput, read_all, shard_names
from steps.embed.encoders import StaticTable, encode
from steps.embed.vectors import write_array
from steps.heldout.select import HeldoutConfig
from steps.heuristics.judge import HeuristicsConfig
from steps.mix.cells import CellsConfig
from tests.directory_out import DirectoryOut
from tests.steps.embed.test_embed_documents import write_documents


def test_texts_that_differ_in_a_number_are_near_and_all_stay(tmp_path):
    texts = [
        f"The warehouse in Rotterdam shipped {each} crates of oranges on Tuesday and nobody signed for them."
        for each in range(1_000, 1_040)
    ]
    write_array(str(tmp_path / "table.npy"), np.random.default_rng(0).normal(size=(30_522, 64)).astype(np.float16))
    vectors = encode(StaticTable(table=str(tmp_path)), texts)
    assert np.median(vectors @ vectors.T) > 0.88  # what others have taken for duplicates
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", texts, 50)),)
    exact_duplicates(ExactConfig(sources=sources), DirectoryOut(tmp_path / "exact"))
    fuzzy = FuzzyConfig(sources=sources, exact=str(tmp_path / "exact"))
    fuzzy_duplicates(fuzzy, DirectoryOut(tmp_path / "fuzzy"))
    for judgement in ("exact", "fuzzy"):
        assert shard_names(str(tmp_path / judgement / "one"))
        assert read_all(str(tmp_path / judgement / "one")).num_rows == 0


def test_nothing_that_removes_documents_reads_vectors():
    removing = (ExactConfig, FuzzyConfig, HeuristicsConfig, DecontaminateConfig, HeldoutConfig, CellsConfig)
    for config in removing:
        assert "embeddings" not in {field.name for field in dataclasses.fields(config)}, config
