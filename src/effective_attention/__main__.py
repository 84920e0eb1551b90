"""``python -m effective_attention`` is the command ``effective-attention``."""

from effective_attention.run.commands import main

if __name__ == "__main__":
    main()
