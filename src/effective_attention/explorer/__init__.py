"""The interactive page: what one text does to one model, or two, in one file. ``packing``, ``sides``, ``page``."""
