"""A task of the user's own: texts and labels from any table, the labels found in it.

``task`` says what the user gave, ``splits`` finds the tables, ``labels`` finds the labels in them, ``complete`` makes
of all that a plain task and a source, which the rest of the project knows no different from GLUE's.
"""
