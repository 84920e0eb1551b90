"""Load what ``train.py`` has trained, to look at it from Python."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.data.tasks import Task
from effective_attention.models.checkpoints import read_checkpoint, restore_classifier, stored_labels
from effective_attention.models.classifier import CHECKPOINT_KEY
from effective_attention.models.encoders import encoder_from_dict
from effective_attention.models.finetuned import with_names
from effective_attention.models.places import find_checkpoint

_ANY_TASK = Task("any", ("text",), {}, None, "")  # a task without labels takes the model of every task


def load_run(run: str | Path) -> tuple[PreTrainedModel, Tokenizer]:
    """Load the finetuned model of a run, and its tokenizer, as transformers has them.

        >>> model, tokenizer = load_run("runs/mrpc/train-2026-01-01_12-00-00")  # doctest: +SKIP
        >>> model.save_pretrained("my-model"), tokenizer.save_pretrained("my-model")  # doctest: +SKIP

    Args:
        run: The run's directory, or a ``.ckpt`` file. No code in it is run, as with ``checkpoint=``.

    Returns:
        The model, in evaluation mode, with the task's labels as its ``id2label``; and the tokenizer.

    Raises:
        UserError: There is no checkpoint, or it cannot be used.
    """
    state = read_checkpoint(find_checkpoint(run, "run"), _ANY_TASK)
    model = restore_classifier(state, _ANY_TASK).model.eval()
    tokenizer = encoder_from_dict(state[CHECKPOINT_KEY]["encoder"]).tokenizer()
    return with_names(model, stored_labels(state, f"run={run}")), tokenizer
