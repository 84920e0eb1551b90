"""Finetune an encoder on a task, and test it with standard and effective attention: ``python train.py task=mrpc``."""

import hydra
from omegaconf import DictConfig

from effective_attention.run.cli import check_before_loading, command, one_line_errors


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float:
    """Finetune, test and analyse; return the main metric under the first attention, for Hydra's optimising sweepers."""
    with one_line_errors():
        check_before_loading(cfg)
        from effective_attention.run.experiment import train  # heavy: imported here to keep --help fast

        metrics = train(cfg)
    return float(metrics[f"test/{cfg.attention.kinds[0]}/{cfg.task.main_metric}"])


if __name__ == "__main__":
    command(main)
