"""Test a finetuned model with standard and with effective attention: ``python evaluate.py task=mrpc checkpoint=<run>``."""

import hydra
from omegaconf import DictConfig

from effective_attention.cli import command, one_line_errors


@hydra.main(version_base="1.3", config_path="conf", config_name="evaluate")
def main(cfg: DictConfig) -> float:
    """Returns the task's metric under the first attention."""
    with one_line_errors():
        from effective_attention.pipeline import evaluate  # heavy: imported here to keep --help fast

        metrics = evaluate(cfg)
    return float(metrics[f"test/{cfg.attention.kinds[0]}/{cfg.task.main_metric}"])


if __name__ == "__main__":
    command(main)
