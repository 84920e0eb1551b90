"""Which input tokens did the output of a classifier depend on? One method a file, each on one padded batch.

- ``gradients``: input gradients, gradient x input and gradient-weighted attention; one backward pass for all three.
- ``integrated_gradients``: Sundararajan et al. (2017), by captum; ``steps`` forward and backward passes.
- ``blank_out``: one token after the other replaced by UNK, Abnar & Zuidema (2020); one forward pass a token.
- ``norms``: ||alpha f(x)||, Kobayashi et al. (2020); no pass beyond the trace, but a probe of one text.
- ``erasure``: no explanation but the test of one: comprehensiveness and sufficiency, DeYoung et al. (2020); a forward
  pass for every distinct shortened text.

Attention rollout and flow read the attention alone and are at home in ``analyses``. What is attributed is an
``request.AttributionRequest``: a traced batch and the target of each example. Every method works on any
transformers model that calls its attention through the ``AttentionInterface``, and leaves it as it was: mode,
parameters and their gradients, hooks, attention implementation, random state. Scores of tokens are (batch, key),
exactly 0 on padding.
"""
