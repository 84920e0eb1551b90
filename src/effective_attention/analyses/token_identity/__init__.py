"""Is a hidden token still the word it came from? States on disk, maps back to the input, the nearest token of the text.

Brunner et al. (2020), section 4 and appendix B. ``analysis`` is the analysis; the other files are what it is made of.
"""

from effective_attention.analyses.token_identity.analysis import TokenIdentity

__all__ = ["TokenIdentity"]
