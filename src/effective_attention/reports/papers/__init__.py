"""Numbers that papers print, to stand beside ours: one file a paper."""
