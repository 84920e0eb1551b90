"""The options of the commands: what is legal, how a wrong one is refused in one line, and what a run's record says.

``arguments`` reads the command line before Hydra does, ``composition`` puts Hydra's errors into words, ``schema`` says
what every option may be, ``check`` holds a composed config against it without loading anything heavy, ``targets`` does
the same for what a ``_target_`` takes, and ``record`` is the config as a run writes it down.
"""
