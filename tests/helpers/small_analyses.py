"""Overrides that make every analysis quick on a tiny model and a few examples, and drop none of its rows."""

SMALL = {
    "head_ablation": ["analysis.head_ablation.limit=null"],
    "patterns": ["analysis.patterns.maps=40"],
    "dependency_alignment": ["analysis.dependency_alignment.least=0"],  # not slow, but the split is small
    "alternative_attention": ["analysis.alternative_attention.heads=shown", "analysis.alternative_attention.starts=1"],
    "identified": ["analysis.identified.examples=3", "analysis.identified.queries=2", "analysis.identified.put_in=2"],
    "sinks": ["analysis.sinks.interval_examples=2", "analysis.sinks.interval_queries=2"],
    "token_identity": [
        "analysis.token_identity.experiments=[input,transfer,previous,neighbours,size]",
        "analysis.token_identity.folds=2",
        "analysis.token_identity.neighbours=[1]",
        "analysis.token_identity.layers=[1]",
        "analysis.token_identity.max_epochs=2",
        "analysis.token_identity.hidden_size=6",
    ],
    "token_mixing": ["analysis.token_mixing.limit=3", "analysis.token_mixing.directions=4"],
    "protocols": ["analysis.protocols.limit=3"],
    "faithfulness": [
        "analysis.faithfulness.limit=3",
        "analysis.faithfulness.steps=2",
        "analysis.faithfulness.shares=[0.2]",
    ],
}
OPTIONS = [option for options in SMALL.values() for option in options]
