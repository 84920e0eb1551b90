"""What every option of the commands may be: the one place for its type and range.

The defaults and what an option means stand in ``conf/``; docs/options.md is written from both. What a ``_target_``
takes beyond the names given here is read off its signature; see ``targets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from effective_attention.run.options.kinds import (
    Built,
    Count,
    CountOrNone,
    File,
    Folder,
    NotNegative,
    Options,
    PartOfIt,
    Place,
    Positive,
    Reserved,
    Seed,
    Share,
    Text,
    Word,
)
from effective_attention.run.options.words import MOST, Words

Kind = Literal["standard", "effective", "affine", "padded"]


class Recipe(Options):
    learning_rate: Positive
    weight_decay: NotNegative
    warmup: Share
    epochs: Count
    batch_size: Count


class Task(Built):
    name: Annotated[str, Field(pattern=r"^[\w.-]+$"), Words("a name of letters, digits, dots and dashes")]
    main_metric: str | None
    metrics: dict[str, Built]
    loaders: dict[str, Built] = Field(default_factory=dict)
    label_column: Text = Field(default="label", json_schema_extra={"only_with": "task=custom"})
    regression: bool = Field(default=False, json_schema_extra={"only_with": "task=custom"})
    validation_share: PartOfIt = Field(default=0.2, json_schema_extra={"only_with": "task=custom"})
    split_seed: Seed = Field(default=0, json_schema_extra={"only_with": "task=custom"})


class Model(Built):
    name: Text = ""
    revision: Text | None = None
    fetch: Literal["ask", "yes", "no"] = Field(
        default="ask", json_schema_extra={"only_with": "model=mpnet_base or model=smollm2"}
    )


class Data(Options):
    batch_size: Count
    max_length: Annotated[int, Field(ge=5, le=MOST)]  # two texts and their delimiters
    padding: Literal["longest", "max_length"]
    limit_train: Count | None
    limit_eval: Count | None
    num_workers: CountOrNone
    token_cache: Place | None
    source: Built
    name: Text | None = Field(default=None, json_schema_extra={"only_with": "data=hub"})
    configuration: Text | None = Field(default=None, json_schema_extra={"only_with": "data=hub"})
    revision: Text | None = Field(default=None, json_schema_extra={"only_with": "data=hub"})
    dir: Folder | None = Field(default=None, json_schema_extra={"only_with": "data=local"})
    file: File | None = Field(default=None, json_schema_extra={"only_with": "data=local"})
    unit: Literal["line", "paragraph"] = Field(default="line", json_schema_extra={"only_with": "data=local"})
    min_words: Count = Field(default=1, json_schema_extra={"only_with": "data=local"})
    skip_broken_rows: bool = Field(default=False, json_schema_extra={"only_with": "data=local or data=hub"})


class Attention(Options):
    kinds: Annotated[
        list[Kind], Field(min_length=1), Words("a list of one or more of standard, effective, affine, padded")
    ]
    repeats: Count


class Trainer(Built):
    max_epochs: Count
    accelerator: str = "auto"
    gradient_clip_val: NotNegative | None = None
    num_sanity_val_steps: Annotated[int, Field(ge=-1)] = 0
    log_every_n_steps: Count = 10
    use_distributed_sampler: Annotated[Literal[False], Words("false: the sampler shares batches out itself")]
    logger: Reserved = None
    callbacks: Reserved = None
    plugins: Reserved = None
    default_root_dir: Reserved = None


class Wandb(Options):
    project: Text
    entity: Text | None
    name: Text | None
    group: Text | None
    job_type: Text | None
    tags: list[Word] | None


class Logger(Options):
    wandb: Wandb | None


class Tagger(Built):
    name: Text = ""


class Common(Options):
    """What both commands take."""

    seed: Seed
    split: Text | None
    reading: Literal["exact", "padded"]
    space: Literal["value", "affine"]
    epsilon: Annotated[float, Field(ge=0, lt=1)]
    head: Literal["classifier", "verb"] = "classifier"
    resamples: CountOrNone
    run_dir: Place
    resume: Place | None
    recipe: Recipe
    task: Task
    model: Model
    data: Data
    attention: Attention
    analysis: dict[str, Built]
    trainer: Trainer
    logger: Logger
    tagger: Tagger


class Drift(Options):
    examples: CountOrNone


class Save(Options):
    every_minutes: Positive | None
    every_steps: Count | None
    keep: Literal["all", "best", "none"]


class Optimizer(Built):
    partial: Annotated[Literal[True], Words("true: it is built when the model is there")] = Field(alias="_partial_")
    lr: Positive
    weight_decay: NotNegative = 0.0


class Train(Common):
    drift: Drift
    warmup: Share
    optimizer: Optimizer
    save: Save


class Evaluate(Common):
    checkpoint: Place | None
    limit: Count | None
    text: Text | None
    text_pair: Text | None
    candidates: list[Word] | None
    referents: list[Word] | None


def schema_of(options: Mapping[str, Any]) -> type[Common]:
    """Return the schema of the command that a config belongs to, told by the options that only ``train.py`` has."""
    only_training = Train.model_fields.keys() - Evaluate.model_fields.keys()
    return Train if only_training & options.keys() else Evaluate
