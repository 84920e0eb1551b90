"""Is a hidden token still the word it came from? States on disk, maps back to the input, and the nearest neighbour in the text.

Brunner et al. (2020), section 4 and appendix B. ``analyses.token_identity`` is the analysis; this is what it is made of.
"""
