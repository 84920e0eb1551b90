"""Which explanation is faithful: what the report says and shows of ``faithfulness``."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.faithfulness.figures import (
    faithfulness,
    faithfulness_layers,
    faithfulness_subject,
)
from effective_attention.reports.chapters.faithfulness.findings import found_faithfulness
from effective_attention.reports.chapters.faithfulness.protocol import by_which_protocol
from effective_attention.reports.chapters.faithfulness.reductions import has_layers, has_subjects
from effective_attention.reports.chapters.faithfulness.tables import correlations, league_table

CHAPTER = Chapter(
    analysis="faithfulness",
    title="Which explanation is faithful",
    source="Abnar & Zuidema 2020, Tables 1 to 3; ERASER",
    question="Which explanation names the words that the model really used?",
    text=(
        "Every method explains the same examples. Its ranking of the tokens is compared with blank-out and with input "
        "gradients (Spearman); then the model is asked itself: how much probability is lost without the tokens ranked "
        "highest (comprehensiveness, more is better), and how much with these alone (sufficiency, less is better). "
        "Where the data knows the word that decides, the share of sentences in which it outranks every attractor. "
        "Negative weights of effective attention become positive, or zero, before rollout and flow. The token the "
        "model answers from is [CLS], or of a causal model the last, where rollout and flow are divided by what even "
        "attention would bring (column receptive_field). The paper's text and its published code compare differently: "
        "Tables 1 and 2 stand beside protocol=ours, Table 3 beside protocol=abnar2020."
    ),
    paper_says=(
        "Abnar & Zuidema find rollout and flow closer to blank-out and to gradients than raw attention; they read "
        "standard attention only."
    ),
    found=found_faithfulness,
    needs_head=True,
    remarks=by_which_protocol,
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
    ),
    tables=(league_table, correlations),
)
