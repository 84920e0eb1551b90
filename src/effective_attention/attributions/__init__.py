"""To which input tokens is the output of a classifier attributed? One method a file, each on one padded batch.

Methods, registered by name where they are defined:

- ``raw``, ``rollout``, ``flow``: one row of the attention, as it is or followed through the layers below.
- ``gradients``: attention times gradient, its rollout and its relevance (Chefer et al. 2021), input gradients, gradient
  x input. One file for five, because all read one backward pass.
- ``generalised_flow``: flow of attention times gradient, Azarkhalili & Libbrecht (2025).
- ``norms``: ||alpha f(x)|| and its rollout, Kobayashi et al. (2020); one file for two, because both read the same
  norms. No pass beyond the trace, but a probe of one text.
- ``value_weights``: attention times the value's norm (VATP), contribution weights; one line each.
- ``residual_norms``: lengths of what a token brings through residual and norms, Kobayashi et al. (2021), GlobEnc;
  ``alti``: how near it comes to the layer's output, Ferrando et al. (2022). A pass of the batch, and a probe.
- ``value_zeroing``: what a layer's output loses without a token's value, Mohebbi et al. (2023); a pass a token.
- ``decompx``: every token's share of the logit, Modarressi et al. (2023); a pass of each text for each layer.
- ``integrated_gradients``: Sundararajan et al. (2017), by captum; ``steps`` forward and backward passes.
- ``blank_out``: one token after the other replaced by UNK, Abnar & Zuidema (2020); one forward pass a token.
- ``shapley``: Shapley values of words that are not blanked, by captum's sampling; a forward pass a token and order.
- ``random_scores``: what guessing would earn.

What they are made with:

- ``request``: what is attributed: a traced batch and the target of each example.
- ``shared_work``: the settings, and work that several methods read, done and timed once.
- ``blocks``: what a layer does with what its attention brings; ``layer_modules``: which module it is. Both are found by
  watching one text. ``layer_vectors``: what each token brings to each other through residual and norms.
- ``perturbations``: the same texts with tokens removed or blanked.
- ``registry``: the methods by name. ``attribute``: runs those that are chosen.

How faithful they are:

- ``erasure``: comprehensiveness and sufficiency, DeYoung et al. (2020), and as shares of the loss without any word,
  Carton et al. (2020); a forward pass for every distinct shortened text. ``word_pieces``: by whole words.
- ``ground_truth``: pointing at the tokens that are known to decide, Arras et al. (2025).
- ``randomised``: the model with layers that have learnt nothing, Adebayo et al. (2018).
- ``exchange``: pairs with their texts exchanged.
- ``ranking``: Spearman's correlation and bootstrap intervals.
- ``comparison``: which differences between methods are real, Demsar (2006).
- ``summed_gradient``: what tokens are worth by Abnar & Zuidema's published code; no method, only compared with.

One text, explained for people:

- ``explain``: from a classifier and a text to an ``explanation``, which ``explanation_page`` and ``highlight`` show.
- ``words``: from tokens to words. ``trust``: how far to trust it, beside random rankings.

Every method works on any transformers model that calls its attention through the ``AttentionInterface``, and leaves it
as it was: mode, parameters and their gradients, hooks, attention implementation, random state. Scores of tokens are
(batch, key), or (batch, layer, key) where a method reads attention, and exactly 0 on padding.

Importing anything from here registers our methods, so that a method of the user's own finds the taken names.
"""

from __future__ import annotations

from importlib import import_module

METHOD_FILES = (
    "raw",
    "rollout",
    "flow",
    "gradients",
    "generalised_flow",
    "norms",
    "value_weights",
    "residual_norms",
    "alti",
    "value_zeroing",
    "decompx",
    "integrated_gradients",
    "blank_out",
    "shapley",
    "random_scores",
)
"""In the order of results; see ``registry.registered``."""

for _file in METHOD_FILES:
    import_module(f"{__name__}.{_file}")
