"""The interactive page, in one file: what one text does to one model, or two. ``packing``, ``sides``, ``page``."""
