"""Another name of ``python -m effective_attention.run.report <folder>``."""

from effective_attention.run.report import command

if __name__ == "__main__":
    command()
