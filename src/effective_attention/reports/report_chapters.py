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
        {
            "finetuning_shift": "Cosine of attention, pretrained against finetuned, by layer and head, and the mean of each layer."
        },
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
        {
            "head_ablation": "Change of the score with one head made even, by layer and head; the last column is the whole layer."
        },
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
    Chapter(
        "alternative_attention",
        "Another attention, the same output",
        "Brunner et al. 2020, §3.3",
        "Where a text has more tokens than a head has value dimensions (and one), a row of attention can be exchanged for "
        "another one that is still a distribution and gives the same output. Two ways lead away from the head's own: the paper's "
        "largest step along a direction of the null space, and linear programs that look for the distribution furthest away. "
        "Distance is the share of a token's attention that is moved. The model is then run with the other map in place; as much "
        "weight moved to a random token shows what a map with another output does.",
        "Brunner et al. prove that such maps exist as soon as the null space of [T, 1] is not empty, and say how to make one; "
        "they show none.",
        {
            "alternative_attention": "A head's own attention, another one with the same output, and their difference. Below, how "
            "much of each token's attention can be moved: found, by the paper's step, and the bound.",
            "alternative_attention_heads": "How much can be moved in each head, mean over the tokens of the text.",
        },
    ),
    Chapter(
        "token_type_profile",
        "Attention between types of tokens",
        "Brunner et al. 2020, Fig. 1b, 1c, 5",
        "Average attention to [CLS], [SEP], periods and commas, and all other tokens, after Clark et al.: summed over the tokens "
        "of the type, averaged over the tokens that attend, then over examples. Effective attention need not sum to 1.",
        "Brunner et al. find that the peak of attention to [SEP] in the middle layers, and that to periods and commas in the "
        "last ones, vanish in effective attention.",
        {
            "token_type_profile": "Attention from all tokens to each type. Dots are heads, lines the mean of a layer, dotted "
            "lines what even attention would give.",
            "token_type_profile_pairs": "From each type (rows) to each type (columns), standard and effective; dotted, even.",
        },
    ),
    Chapter(
        "token_identity",
        "What is still in a hidden token",
        "Brunner et al. 2020, Fig. 2, 7 to 17, 38, 39",
        "A map is trained from hidden embeddings to what the first layer reads at the same position (token, segment and position "
        "embeddings after their normalisation). A token is identified if, of all tokens of its text, its own input is nearest to "
        "the mapped embedding. Maps: none (naive), linear, and an MLP with one hidden layer; distances: cosine and L2, as loss "
        "and for the search. Texts are split into 70 % for training, 15 % for early stopping and 15 % for testing.",
        "Brunner et al. find that a linear map recovers 93 % of MRPC's tokens from BERT's last layer by cosine; without a map "
        "tokens stay near their input up to layer 4 of 12 and then move away; random guessing gives 1.7 %. Maps of later layers "
        "work on earlier ones better than the other way around, and finetuning changes the last layer most.",
        {
            "token_identity": "Share of tokens identified by layer, mean ± standard deviation over folds; rings: the linear map "
            "in closed form; dotted: random guesses.",
            "token_identity_transfer": "A map trained on one layer (colour) and tested on all.",
            "token_identity_generalisation": "On the texts the maps were trained on, and on others.",
            "token_identity_layers": "Across a single layer: from a hidden embedding to the one before. Dashed, pretrained; "
            "solid, finetuned.",
            "token_identity_neighbours": "Neighbours' inputs found in a token's hidden embedding.",
        },
    ),
    Chapter(
        "token_mixing",
        "What a hidden token is made of",
        "Brunner et al. 2020, Fig. 3, 4, 18 to 37, 40 to 43",
        "The contribution of an input token to a hidden embedding is the norm of its derivative, as a share of those of all "
        "input tokens. Unless all directions are used, the norm is estimated from random orthonormal directions; the table "
        "states the error. A word of several pieces counts with each of them.",
        "Brunner et al. find a median own contribution of 30.6 % after layer 1, 14.4 % after layer 6 and 10.7 % after layer 12; "
        "the own input is always the largest contributor in layers 1 to 3, and is not for 18 % of the tokens in layer 6 and 30 % "
        "in the last two. Context is local, less so in later layers; [CLS] gathers from around the first [SEP].",
        {
            "token_mixing": "Left: contribution of a token's own input (line: median, box: quartiles, whiskers: 1.5 times the "
            "box). Right: share of tokens whose own input is not the largest contributor.",
            "token_mixing_context": "Left: in which layers a group of neighbours contributes (each group sums to 1). Right: "
            "where contributions come from, without the token itself.",
            "token_mixing_cls": "Where [CLS] gathers from: counted from [CLS] (without its own), and from the first [SEP].",
            "token_mixing_word": "All contributions to one chosen token (orange), by layer; colours follow the square root.",
            "token_mixing_tags": "Own contribution by part of speech, ordered by the last layer's median.",
        },
    ),
)
"""In the order of the report."""
