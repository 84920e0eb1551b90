"""Parts of speech and dependency trees of words; `effective_attention.data.tagging` brings them to sub-tokens."""
