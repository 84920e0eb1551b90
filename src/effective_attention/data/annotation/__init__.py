"""Parts of speech and dependency trees: of words, and (``tagging``) of the sub-tokens they are cut into."""
