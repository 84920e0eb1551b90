"""Test a finetuned model with standard and effective attention: ``python evaluate.py task=mrpc checkpoint=<run>``."""

import sys

from effective_attention.run.commands import start

if __name__ == "__main__":
    start("evaluate", sys.argv[1:])
