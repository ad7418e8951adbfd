from steps.seeded_ranks import choice_rank, draw_rank


def test_ranks_are_those_by_which_labels_and_held_out_documents_were_chosen():
    """Golden: other values would draw other documents than those labelled, and hold out others than those measured on."""
    identifier = "007cfbbb" * 4
    assert (choice_rank(0, identifier), choice_rank(1, identifier)) == (
        8_975_787_197_170_488_920,
        362_124_357_198_091_958,
    )
    assert (draw_rank(0, identifier), draw_rank(1, identifier)) == (
        13_486_630_091_176_588_286,
        4_747_338_290_128_222_443,
    )
