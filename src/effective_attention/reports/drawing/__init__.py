"""The look of figures, and the kinds of figure that several chapters share.

These are the only modules beside chapters that import matplotlib.
"""
