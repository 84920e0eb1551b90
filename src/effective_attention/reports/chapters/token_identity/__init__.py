"""What is still in a hidden token: all that the report says and shows of ``token_identity``.

- ``reductions``: rates by layer, of one experiment, map and distance.
- ``figures``: the figures.
- ``tables``: the small table.
"""

from __future__ import annotations

from functools import partial

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.token_identity.figures import (
    token_identity,
    token_identity_generalisation,
    token_identity_layers,
    token_identity_neighbours,
    token_identity_size,
    token_identity_transfer,
)
from effective_attention.reports.chapters.token_identity.findings import found_identity
from effective_attention.reports.chapters.token_identity.reductions import (
    has_experiment,
    has_training_rates,
    has_transfer,
)
from effective_attention.reports.chapters.token_identity.tables import identity_rates, size_rates

CHAPTER = Chapter(
    analysis="token_identity",
    title="What is still in a hidden token",
    source="Brunner et al. 2020, Fig. 2, 7 to 17, 38, 39",
    question="Can one still tell which token a hidden vector came from?",
    text=(
        "A map is trained from hidden embeddings to what the first layer reads at the same position (token, segment "
        "and position embeddings after their normalisation). A token is identified if, of all tokens of its text, its "
        "own input is nearest to the mapped embedding. Maps: none (naive), linear, and an MLP with one hidden layer; "
        "distances: cosine and L2, as loss and for the search. Texts are split into 70 % for training, 15 % for early "
        "stopping and 15 % for testing."
    ),
    paper_says=(
        "Brunner et al. find that a linear map recovers 93 % of MRPC's tokens from BERT's last layer by cosine; "
        "without a map tokens stay near their input up to layer 4 of 12 and then move away; random guessing gives 1.7 "
        "%. Maps of later layers work on earlier ones better than the other way around, and finetuning changes the "
        "last layer most. An MLP on layer 11, by L2, finds 0.74, 0.80, 0.81 and 0.82 of the tokens with 50, 80, 90 and "
        "100 % of the training texts."
    ),
    found=found_identity,
    figures=(
        Drawing(
            "token_identity",
            (
                "Share of tokens identified by layer, mean ± standard deviation over folds; rings: the linear map in "
                "closed form; dotted: random guesses."
            ),
            token_identity,
            partial(has_experiment, name="input"),
        ),
        Drawing(
            "token_identity_transfer",
            "A map trained on one layer (colour) and tested on all.",
            token_identity_transfer,
            has_transfer,
        ),
        Drawing(
            "token_identity_generalisation",
            "On the texts the maps were trained on, and on others.",
            token_identity_generalisation,
            has_training_rates,
        ),
        Drawing(
            "token_identity_layers",
            ("Across a single layer: from a hidden embedding to the one before. Dashed, pretrained; solid, finetuned."),
            token_identity_layers,
            partial(has_experiment, name="previous"),
        ),
        Drawing(
            "token_identity_neighbours",
            "Neighbours' inputs found in a token's hidden embedding.",
            token_identity_neighbours,
            partial(has_experiment, name="neighbours"),
        ),
        Drawing(
            "token_identity_size",
            "Maps trained on more and more of the training texts, tested on the same others; dotted: random guesses.",
            token_identity_size,
            partial(has_experiment, name="size"),
        ),
    ),
    tables=(identity_rates, size_rates),
)
