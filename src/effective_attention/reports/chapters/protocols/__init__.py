"""Do the conclusions survive the protocol: what the report says and shows of ``protocols``."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.protocols.figures import protocols
from effective_attention.reports.chapters.protocols.findings import found_protocols
from effective_attention.reports.chapters.protocols.tables import conclusions

CHAPTER = Chapter(
    analysis="protocols",
    title="Does the conclusion survive the protocol",
    source="ours, after Abnar & Zuidema 2020",
    question="Is rollout, or flow, closer to what the model uses than raw attention, however one compares?",
    text=(
        "The same examples are compared in every way that the paper leaves open or its published code decides: a "
        "token's worth by gradients is the norm of the log-odds' gradient or the absolute sum of the logit's; "
        "attention is the row of the token that is answered from or the largest over all queries; equal scores share "
        "a mean rank or ranks are dense, in the formula without ties; [CLS] and [SEP] are ranked or not. Two methods "
        "are compared example by example: their difference's 95 % bootstrap interval is paired, and a conclusion is "
        "sure where it excludes 0. The class explained is the same in all rows (column target), so that the paper's "
        "row is its protocol but for class 0."
    ),
    paper_says="Abnar & Zuidema find rollout and flow closer to blank-out and gradients than raw attention.",
    found=found_protocols,
    needs_head=True,
    figures=(
        Drawing(
            "protocols",
            (
                "Correlation in the last layer by every protocol, with 95 % bootstrap intervals. A row is a protocol: "
                "a token's worth by gradients (norm or sum), whose attention (answer or max), ties (mean or dense), "
                "and the tokens ranked (words, or all with [CLS] and [SEP]). Grey: ours, and that of the paper's code."
            ),
            protocols,
        ),
    ),
    tables=(conclusions,),
)
