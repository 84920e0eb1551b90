"""Finetune an encoder on a task, and test it with standard and effective attention: ``python train.py task=mrpc``."""

import sys

from effective_attention.run.commands import start

if __name__ == "__main__":
    start("train", sys.argv[1:])
