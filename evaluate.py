"""Test a finetuned model with standard and effective attention: ``python evaluate.py task=mrpc checkpoint=<run>``."""

import hydra
from omegaconf import DictConfig

from effective_attention.run.cli import check_before_loading, command, one_line_errors


@hydra.main(version_base="1.3", config_path="conf", config_name="evaluate")
def main(cfg: DictConfig) -> float | None:
    """Test and analyse; return the main metric under the first attention, or None for a task without labels."""
    with one_line_errors():
        check_before_loading(cfg)
        from effective_attention.run.experiment import evaluate  # heavy: imported here to keep --help fast

        metrics = evaluate(cfg)
    name = cfg.task.main_metric
    return None if name is None else float(metrics[f"test/{cfg.attention.kinds[0]}/{name}"])


if __name__ == "__main__":
    command(main)
