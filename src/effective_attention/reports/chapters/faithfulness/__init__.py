"""Which explanation is faithful: what the report says and shows of ``faithfulness``."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.faithfulness.changes import changes_table, found_changes
from effective_attention.reports.chapters.faithfulness.comparisons import (
    against_the_best,
    faithfulness_ranks,
    found_differences,
    has_ranks,
)
from effective_attention.reports.chapters.faithfulness.erasures import found_erasures, ways_table
from effective_attention.reports.chapters.faithfulness.figures import (
    faithfulness,
    faithfulness_checks,
    faithfulness_layers,
    faithfulness_subject,
    faithfulness_truth,
)
from effective_attention.reports.chapters.faithfulness.findings import found_faithfulness
from effective_attention.reports.chapters.faithfulness.protocol import by_which_protocol, how_many_examples
from effective_attention.reports.chapters.faithfulness.reductions import (
    has_checks,
    has_layers,
    has_pointing,
    has_subjects,
)
from effective_attention.reports.chapters.faithfulness.tables import checks_table, correlations, league_table

CHAPTER = Chapter(
    analysis="faithfulness",
    title="Which explanation is faithful",
    source="Abnar & Zuidema 2020, Tables 1 to 3; ERASER",
    question="Which explanation names the words that the model really used?",
    text=(
        "Every method explains the same examples. Its ranking of the tokens is compared with blank-out and with input "
        "gradients (Spearman); then the model is asked itself: how much probability is lost without the tokens ranked "
        "highest (comprehensiveness, more is better), and how much with these alone (sufficiency, less is better). "
        "Where the data knows the word that decides, the share of sentences in which it outranks every attractor, and "
        "how well scores point at it. Normalised measures are shares of what is lost without any word. "
        "Negative weights of effective attention become positive, or zero, before rollout and flow. The token the "
        "model answers from is [CLS], or of a causal model the last, where rollout and flow are divided by what even "
        "attention would bring (column receptive_field). The paper's text and its published code compare differently: "
        "Tables 1 and 2 stand beside protocol=ours, Table 3 beside protocol=abnar2020."
    ),
    paper_says=(
        "Abnar & Zuidema find rollout and flow closer to blank-out and to gradients than raw attention; they read "
        "standard attention only."
    ),
    found=lambda table: [
        *found_faithfulness(table),
        *found_erasures(table),
        *found_differences(table),
        *found_changes(table),
    ],
    needs_head=True,
    remarks=lambda table: [*by_which_protocol(table), *how_many_examples(table)],
    figures=(
        Drawing(
            "faithfulness",
            (
                "All methods, last layer, with 95 % bootstrap intervals, most comprehensive first; dotted, a random "
                "ranking."
            ),
            faithfulness,
        ),
        Drawing(
            "faithfulness_ranks",
            (
                "Average rank of each method over the examples, with Nemenyi's critical difference at 0.05: methods "
                "that share a bar at the right are not told apart."
            ),
            faithfulness_ranks,
            has_ranks,
        ),
        Drawing(
            "faithfulness_checks",
            (
                "Checks, last layer, with 95 % intervals: erasure as a share of what is lost without any word; the "
                "same explanation of a model with random layers (near 0 is good) and of the exchanged pair, where "
                "asked for."
            ),
            faithfulness_checks,
            has_checks,
        ),
        Drawing(
            "faithfulness_layers",
            "Correlation by layer, mean ± standard deviation over examples; dashed, the paper's by that protocol.",
            faithfulness_layers,
            has_layers,
        ),
        Drawing(
            "faithfulness_subject",
            "How often the subject outranks every attractor: by layer, and for all methods.",
            faithfulness_subject,
            has_subjects,
        ),
        Drawing(
            "faithfulness_truth",
            "How well methods point at the subject, last layer, with 95 % intervals: by rank and share of the score.",
            faithfulness_truth,
            has_pointing,
        ),
    ),
    tables=(league_table, against_the_best, changes_table, ways_table, checks_table, correlations),
)
