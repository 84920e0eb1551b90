"""Finetune an encoder on a task, and test it with standard and effective attention: ``python train.py task=mrpc``."""

import hydra
from omegaconf import DictConfig

from effective_attention.run.cli import command
from effective_attention.run.jobs import run_job


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """Finetune, test and analyse."""
    return run_job("train", cfg)


if __name__ == "__main__":
    command(main)
