"""Parts of speech and dependency trees of words; `effective_attention.data.annotation.tagging` brings them to sub-tokens."""
