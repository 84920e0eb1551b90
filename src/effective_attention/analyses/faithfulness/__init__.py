"""Which explanation is faithful to the model?

Abnar & Zuidema (2020), Tables 1 to 3: Spearman's correlation of the attention of the token that the model answers from
([CLS]; in a causal model the last; raw, rolled out, as flow; layer by layer) with what tokens are worth by two other
measures: how the probability of a class changes when a token is blanked, and the gradient at the input. Beside them
every other method we offer, on the same examples, and on effective attention as well.

Agreeing with another estimate is no proof, so two measures ask the model itself (ERASER, DeYoung et al. 2020): how much
probability is lost without the tokens a method ranks highest (``comprehensiveness``, more is better), and how much with
these alone (``sufficiency``, less is better), averaged over several shares of tokens. And where the data knows which
word decides, as the grammar of ``task=agreement`` does, ``subject_first`` is the share of sentences in which it
outranks every attractor.

What the paper leaves open is a protocol: ``ours``, or ``abnar2020``, which follows the code its authors published and
gives their Table 3; single options override it (``analyses.common.protocol``). The target is that of the whole league:
what methods explain, the references, and the erasure. ERASER asks for the predicted class, and so does ``ours``.

Conventions. A regression's score is explained. Padding is left out of every ranking. Correlations compare absolute
scores; erasure takes the tokens that speak for the class first, so signed scores, and never [CLS] and [SEP]. ``std``
is over examples, as in the paper; ``low`` and ``high`` are a 95 % bootstrap interval of the mean. An example that
cannot be ranked (one word, or the same score for all) is left out of that mean; ``count`` says how many were in,
``examples`` how many were asked. ``milliseconds`` an example come on top of the forward pass.

Beyond that: ways to erase (``ways``: whole words; blanks; hidden from attention), measures against the empty text
(``normalised_``), measures of pointing at the word that decides (``truth``), and two tests of the methods themselves,
asked for by ``sanity`` and ``stability`` (``changes``). Methods are compared pair by pair on one measure (``pairs``).

``measures`` is the list of what is measured: a new one is a line there. ``asked`` is what a measure may read.
"""

from __future__ import annotations

from effective_attention.analyses.faithfulness.analysis import Faithfulness
from effective_attention.analyses.faithfulness.measures import MEASURES, Measure
from effective_attention.analyses.faithfulness.pairs import CHANGE, DIFFERENCE, RANK
from effective_attention.analyses.faithfulness.subject import subject_first
from effective_attention.analyses.faithfulness.table import COST, SCHEMA

__all__ = ["CHANGE", "COST", "DIFFERENCE", "MEASURES", "RANK", "SCHEMA", "Faithfulness", "Measure", "subject_first"]
