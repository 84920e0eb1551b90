"""Test a finetuned model with standard and effective attention: ``python evaluate.py task=mrpc checkpoint=<run>``."""

import hydra
from omegaconf import DictConfig

from effective_attention.run.cli import command
from effective_attention.run.jobs import run_job


@hydra.main(version_base="1.3", config_path="conf", config_name="evaluate")
def main(cfg: DictConfig) -> float | None:
    """Test and analyse."""
    return run_job("evaluate", cfg)


if __name__ == "__main__":
    command(main)
