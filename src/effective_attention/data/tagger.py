"""Another name of ``python -m effective_attention.data.annotation``, kept for those who know it."""

from effective_attention.data.annotation.__main__ import main

if __name__ == "__main__":
    main()
