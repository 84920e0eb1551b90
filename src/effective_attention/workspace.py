"""Another name of ``python -m effective_attention.run.wandb_workspace``."""

from effective_attention.run.wandb_workspace import main

if __name__ == "__main__":
    main()
