"""What papers print in numbers, to stand beside ours: one file a paper."""
