"""An earlier name of ``effective_attention.reports``, kept for those who know its command."""
