"""What are hidden embeddings made of? Hidden token attribution, Brunner et al. (2020), section 5.

- ``first_layer``: a model as a function from what its first layer reads to every layer's output.
- ``jacobian``: norms of that function's derivative, block by block, exact or estimated with a stated error; forward
  mode.
- ``statistics``: what the paper's figures show of many texts' contributions.
- ``analysis``: the analysis.
"""

from effective_attention.analyses.token_mixing.analysis import TokenMixing

__all__ = ["TokenMixing"]
