"""The report's words: what each analysis asks, what the paper found, and what its figures show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """``figures`` maps names of figures to captions; ``paper`` is where the paper shows the same."""

    analysis: str
    title: str
    paper: str
    text: str
    paper_says: str
    figures: dict[str, str]


CHAPTERS = (
    Chapter(
        "timing",
        "Evaluation time",
        "Table 3",
        "How long evaluation takes with effective attention, relative to standard attention on the same machine.",
        "The paper's times are BERT-base's on one GPU, with a full singular value decomposition per head.",
        {"timing": "Evaluation time relative to standard attention (dashed), beside the ratio of the paper's times."},
    ),
    Chapter(
        "patterns",
        "Attention patterns",
        "Table 2, Fig. 4",
        "A small convolutional network sorts randomly chosen attention maps into five patterns.",
        "The paper finds fewer vertical and more block patterns in effective attention than in standard attention.",
        {
            "patterns": "Share of each pattern, standard beside effective (the paper's Fig. 4).",
            "patterns_layers": "The same by layer.",
        },
    ),
    Chapter(
        "token_types",
        "What [CLS] attends to",
        "Fig. 1",
        "The weight [CLS] gives to each type of token in the last layer, by head: of several tokens of a type the largest "
        "counts, of a word of several pieces the first. A largest weight favours frequent types, so a second figure divides the "
        "weight on a type by its share of the tokens: 1 is what even attention would give.",
        "The paper finds [SEP] and punctuation less prominent in effective attention, except on SST-2, and [CLS] much the same.",
        {
            "token_types": "Largest weight from [CLS] to a token of each type, mean over examples (the paper's Fig. 1).",
            "token_types_lift": "Weight on a type divided by the type's share of tokens; 1 is even attention.",
        },
    ),
    Chapter(
        "delimiters",
        "Attention to the delimiters",
        "Fig. 5, Fig. 6",
        "The weight all other tokens give to [CLS] and to [SEP], by layer and head. Effective attention has no fixed range; as "
        "in the paper it is coloured from the smallest to the largest of all its weights in the task.",
        "The paper finds that effective attention disregards [SEP] but not [CLS].",
        {
            "delimiters_cls": "Attention to [CLS] from all other tokens (the paper's Fig. 5).",
            "delimiters_sep": "Attention to [SEP] from all other tokens (the paper's Fig. 6).",
            "delimiters_fitted": "The same, each attention coloured over the range of the values shown.",
        },
    ),
    Chapter(
        "finetuning_shift",
        "What finetuning changes",
        "Fig. 3",
        "Cosine similarity of a head's attention before and after finetuning: 1 means that nothing changed. Padding is left out.",
        "The paper finds that the last two layers change most, with either attention.",
        {"finetuning_shift": "Cosine of attention, pretrained against finetuned, by layer and head, and the mean of each layer."},
    ),
    Chapter(
        "null_space",
        "The null space, and what padding adds to it",
        "ours; Brunner et al. Fig. 1a",
        "The part of attention that the values cancel. Read exactly, it is empty unless a text has more tokens than a head has "
        "value dimensions. The published protocol pads every text first, which enlarges the null space: the last panel "
        "separates the two.",
        "Brunner et al. find a correlation of 1 up to the head's width, and then a fall.",
        {
            "null_space": "Left: correlation of attention and effective attention by length. Middle: share of attention in the "
            "null space by layer. Right: that share read exactly and padded, on the same examples, and how much of the latter "
            "is due to padding."
        },
    ),
    Chapter(
        "head_ablation",
        "Heads made even",
        "after Kovaleva et al. 2019",
        "The task's score when one head, or a whole layer, attends evenly to all tokens: below zero, the head was needed.",
        "",
        {"head_ablation": "Change of the score with one head made even, by layer and head; the last column is the whole layer."},
    ),
    Chapter(
        "heatmap",
        "One head, one example",
        "Fig. 2, Fig. 7",
        "The attention of one head on one text: each row attends to the columns. Standard is the sum of effective and null; null "
        "does not reach the output.",
        "",
        {"heatmap": "Standard, effective and null attention; orange in effective attention is below zero."},
    ),
    Chapter(
        "faithfulness",
        "Which explanation is faithful",
        "Abnar & Zuidema 2020, Tables 1 to 3; ERASER",
        "Every method explains the same examples. Its ranking of the tokens is compared with blank-out and with input gradients "
        "(Spearman); then the model is asked itself: how much probability is lost without the tokens ranked highest "
        "(comprehensiveness, more is better), and how much with these alone (sufficiency, less is better). Where the data "
        "knows the word that decides, the share of sentences in which it outranks every attractor. Negative weights of "
        "effective attention become positive, or zero, before rollout and flow.",
        "Abnar & Zuidema find rollout and flow closer to blank-out and to gradients than raw attention; they read standard "
        "attention only.",
        {
            "faithfulness": "All methods, last layer, with 95 % bootstrap intervals, most comprehensive first; dotted, a "
            "random ranking.",
            "faithfulness_layers": "Correlation by layer, mean ± standard deviation over examples; dashed, the paper's.",
            "faithfulness_subject": "How often the subject outranks every attractor: by layer, and for all methods.",
        },
    ),
    Chapter(
        "attention_graph",
        "One example as a graph",
        "Abnar & Zuidema 2020, Fig. 1 to 3",
        "Each token in each layer is a node, heads averaged. Raw attention looks at the layer below, where tokens are already "
        "mixed; rollout multiplies the layers and flow takes the largest flow through them, both with the residual connection, "
        "down to the input. Flow is normalised to sum 1 in each layer, as in the paper.",
        "Abnar & Zuidema find raw attention nearly even in the upper layers, rollout more focused than flow.",
        {
            "attention_graph": "The graph without the residual connection: the darker and wider, the more attention. Light edges "
            "are left out (the limit stands above each panel); the chosen token's node in the last layer is orange.",
            "attention_graph_maps": "What the chosen token (orange) sees, by layer; colours follow the square root of the value.",
        },
    ),
    Chapter(
        "pronouns",
        "A masked pronoun",
        "Abnar & Zuidema 2020, Fig. 4",
        "A masked language model fills a gap in a sentence. Which word does it expect there, and which of the words that the gap "
        "may refer to does [MASK] look at? Attention to a word of several pieces is their sum.",
        "Abnar & Zuidema find that flow agrees with the model's choice in both of their examples, raw attention in neither.",
        {
            "pronouns": "Left: probability of the candidates relative to each other (in brackets, as they are). Right: what each "
            "referent gets of the attention [MASK] gives to all of them, by layer; dashed, an even share."
        },
    ),
)
"""In the order of the report."""
