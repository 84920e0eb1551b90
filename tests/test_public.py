"""What users import: the public names, a light import, and attention functions that transformers knows."""

import subprocess
import sys

import pytest

import effective_attention
from effective_attention import analyses, reports


@pytest.mark.parametrize("package", [effective_attention, analyses, reports], ids=lambda package: package.__name__)
def test_dir_shows_the_public_names_and_all_can_be_had(package) -> None:
    assert set(package.__all__) == set(dir(package)) - {"__version__"}
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, effective_attention; print([name for name in ('torch', 'transformers', 'numpy', 'pandas', "
    code += "'hydra', 'numba') if name in sys.modules])"
    assert run(code) == "[]"


MODEL = """
import torch
from transformers import BertConfig, BertModel
sizes = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16, vocab_size=30)
torch.manual_seed(0)
model = BertModel._from_config(BertConfig(**sizes), attn_implementation="effective_attention").eval()
with torch.no_grad():
    weights = model(torch.arange(12)[None], output_attentions=True).attentions[0]
print(float((weights.sum(dim=-1) - 1).abs().max()) > 1e-3)
"""


@pytest.mark.parametrize(
    "first", ["import effective_attention\n", "import transformers.modeling_utils\nimport effective_attention\n"]
)
def test_attention_functions_are_known_by_name_after_the_import(first: str) -> None:
    """Check by effective attention's rows, which do not sum to 1: twelve tokens, heads of width 8."""
    assert run(first + MODEL) == "True"


def test_every_attention_that_a_model_can_run_with_has_a_name() -> None:
    from effective_attention.attention.variants import TESTED
    from effective_attention.registration import NAMES

    assert tuple(f"{name}_attention" for name in TESTED) == NAMES


@pytest.mark.parametrize("module", ["attention.hook", "attention.trace", "attention.variants", "explorer.sides"])
def test_any_module_can_be_imported_first(module: str) -> None:
    """Transformers is loaded in the midst of it, and our registration with it."""
    assert run(f"import effective_attention.{module}; print('fine')") == "fine"


def test_old_names_that_others_rely_on() -> None:
    from effective_attention.analyses.flow import attention_flow
    from effective_attention.analyses.rollout import attention_rollout
    from effective_attention.errors import UserError
    from effective_attention.models.encoders import embedded_folder

    assert all(map(callable, (attention_flow, attention_rollout, embedded_folder, UserError)))


@pytest.mark.parametrize("module", ["data.tagger", "data.annotation", "run.wandb_workspace", "workspace"])
def test_commands_answer_under_old_and_new_names(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"effective_attention.{module}", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "usage: python -m effective_attention." in done.stdout


@pytest.mark.parametrize("module", ["results.report", "run.report"])
def test_the_report_command_under_both_names(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"effective_attention.{module}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the following arguments are required: folders; write python -m")
    assert len(done.stderr.splitlines()) == 1
