"""The report's words on the structure of attention, after Vig & Belinkov (2019).

Their model is GPT-2 small (12 layers, 12 heads), a causal language model that reads Wikipedia: a token sees only what
is before it, and the first token takes what a head has no use for. Ours are bidirectional encoders, so only the shape
of a finding can be compared, not its numbers; every chapter says so where it matters.
"""

from __future__ import annotations

from effective_attention.reports.report_chapters import Chapter

_SIGNS = (
    "Effective attention has negative weights: they count by their size or as nothing, as the column convention says (absolute "
    "or positive)."
)
_THEIRS = (
    "Their model is GPT-2 small (12 layers, 12 heads), a causal language model on Wikipedia; ours reads both ways."
)

STRUCTURE_CHAPTERS = (
    Chapter(
        "distance",
        "How far attention reaches",
        "Vig & Belinkov 2019",
        "The mean distance in tokens between the token that attends and the one attended to, weighted by attention, over all "
        "pairs of the split. [CLS] and [SEP] are left out unless the column special_tokens says otherwise: a head that rests on "
        f"them would seem to reach far. Even attention over the same pairs is the measure of what is far. {_SIGNS}",
        f"Vig & Belinkov find that the deepest layers capture the longest-range relationships. {_THEIRS}",
        {
            "distance": "Mean distance by layer and head, and each layer's average; dotted, even attention.",
            "distance_depth": "The same against depth: a dot is a head, a line the layers' average; dotted, even attention.",
        },
    ),
    Chapter(
        "entropy",
        "How broadly attention is spread",
        "Vig & Belinkov 2019",
        "The entropy of a token's attention in nats, averaged over the tokens of the split: 0 if all weight is on one token. A "
        "long text allows for more, so the relative entropy divides by the largest that the row could have: 1 is even attention. "
        f"{_SIGNS}",
        f"Vig & Belinkov ask whether a head's attention is dispersed or focused, and show it by layer and head. {_THEIRS}",
        {
            "entropy": "Entropy by layer and head, and each layer's average.",
            "entropy_relative": "The same as a share of the largest possible entropy.",
        },
    ),
    Chapter(
        "variability",
        "Position or content",
        "Vig & Belinkov 2019",
        "How much a head's weights between the first tokens vary from text to text: half the mean absolute deviation from their "
        "average, relative to the weights. A head that always looks at the same positions has 0; one whose weights depend on "
        "what it reads has more. Weights of effective attention are taken as they are, and by their size in the denominator.",
        f"Vig & Belinkov read high variability as attention to content, low as attention to position. {_THEIRS}",
        {"variability": "Variability by layer and head, and each layer's average."},
    ),
    Chapter(
        "pos_attention",
        "Parts of speech",
        "Vig & Belinkov 2019",
        "The share of a head's attention that goes to tokens of each part of speech, and the share that comes from them; every "
        "piece of a word carries the word's tag. The share that even attention would give stands in each panel's title. Shown "
        f"are the tags that some head prefers most. {_SIGNS}",
        f"Vig & Belinkov find heads that target specific parts of speech. {_THEIRS}",
        {
            "pos_attention": "Standard attention to each tag, by layer and head; beside it the layers' averages, with even "
            "attention dotted. A tag has its own colour scale.",
            "pos_attention_effective": "Effective attention to each tag, on the same scales.",
            "pos_attention_from": "Standard attention from each tag.",
        },
    ),
    Chapter(
        "dependency_alignment",
        "Attention along dependencies",
        "Vig & Belinkov 2019",
        "The share of attention between words that connects two words in a dependency relation, whichever way. Attention between "
        "words is that between their pieces: summed over the pieces looked at, averaged over those that look. For each relation, "
        "how often the partner is the word with the largest weight (hits), by direction. Three fixed rules say what a share is "
        f"worth: all weight on the previous word, on the next, or even. {_SIGNS}",
        "Vig & Belinkov find that attention aligns with dependencies most strongly in the middle layers, and that this alignment "
        f"is inversely correlated with distance. {_THEIRS}",
        {
            "dependency_alignment": "Share of attention between related words by layer and head, and each layer's average; "
            "upright lines, what the fixed rules reach.",
            "dependency_alignment_relations": "For each relation how often the best head finds the partner; at the right, that "
            "head as layer.head (standard / effective); ordered by the gain over the best fixed rule of its direction.",
        },
    ),
    Chapter(
        "exemplars",
        "What induces a head",
        "Vig & Belinkov 2019",
        "For each head the texts of the split in which one token gives another the largest weight. The boxed word looks; the "
        "darker a word, the more it is looked at, relative to the strongest word that is no special token. Of effective "
        "attention the largest positive weight counts; orange is below zero.",
        "Vig & Belinkov find heads in the deepest layers that target specific lexical patterns, such as an acronym and the "
        f"phrase it stands for, or a comma and the place name before it. {_THEIRS}",
        {
            "exemplars": "For each layer the head with the strongest exemplar: its text, and the weight of its strongest pair. "
            "Of more than two runs the first two; all heads of all runs stand below as text.",
            "exemplars_effective": "The same for effective attention.",
        },
    ),
)
"""In the order of the report, after the other chapters."""
