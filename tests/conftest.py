"""Fixtures that several files share; every jaxtyping signature is checked with beartype while the tests run.

Nothing here imports the package or anything heavy at the top: a test file that needs neither stays fast.
"""

import contextlib
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from jaxtyping import install_import_hook

from helpers.paths import CONF, ROOT
from helpers.subjects import build_subject

# Not the whole package: what checks the user's options must be reached by wrong ones, as it is outside the tests. Nor
# the two studies: their functions are also handed PyTorch's stand-ins for tensors and its own containers.
ANALYSES = sorted(path.stem for path in (ROOT / "src" / "effective_attention" / "analyses").glob("*.py"))
COMMON = ("pairs", "samples", "tables", "tokens", "words")
CHECKED = ["attention", "graphs", *(f"analyses.common.{name}" for name in COMMON)]
CHECKED += [f"analyses.{name}" for name in (*ANALYSES, "faithfulness") if name != "__init__"]
install_import_hook([f"effective_attention.{name}" for name in CHECKED], "helpers.typechecking.checked")

# A busy machine is no failure: no test has a deadline.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# No test may reach for the network, and no library may try for minutes.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SMALL = (
    "model=tiny",
    "trainer=cpu",
    "trainer.max_epochs=1",
    "trainer.enable_progress_bar=false",
    "data.limit_train=32",
    "data.limit_eval=16",
    "logger=csv",
    "analysis=none",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the wheel's one long test go first: of two processes, one would be left alone with it at the end."""
    items.sort(key=lambda item: item.path.name != "test_wheel.py")


@pytest.fixture(autouse=True)
def _clean_globals() -> Iterator[None]:
    """Clean up what a run may leave in this process: Hydra's singleton, deterministic algorithms, an ignored Ctrl-C."""
    import hydra.core.global_hydra

    hydra.core.global_hydra.GlobalHydra.instance().clear()
    interrupt = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, interrupt)
    hydra.core.global_hydra.GlobalHydra.instance().clear()


def _compose(name: str, folder: Path, *overrides: str) -> Any:
    from hydra import compose, initialize_config_dir

    places = [f"run_dir={folder / 'run'}", f"data.token_cache={folder / 'tokens'}"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(name, overrides=[*SMALL, *places, *overrides])


@pytest.fixture(scope="session")
def composer() -> Callable[..., Any]:
    """Return ``composer("train", folder, *overrides)``: like ``compose``, for fixtures that outlive a test."""
    return _compose


@pytest.fixture
def compose(tmp_path: Path) -> Callable[..., Any]:
    """Return ``compose("train", *overrides)``, which composes the real config, shrunk to seconds.

    Its ``run_dir`` is ``tmp_path / "run"``.
    """
    return lambda name, *overrides: _compose(name, tmp_path, *overrides)


@pytest.fixture(scope="session")
def make_task() -> Callable[[str], Any]:
    """Return ``make_task("mrpc")``, which builds a task from its real config."""
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    def make(name: str) -> Any:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return instantiate(compose(overrides=[f"+task={name}"]).task)

    return make


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Load the embedded model's tokenizer. It is shared: do not change it."""
    from effective_attention.models.encoders import TinyEncoder

    return TinyEncoder().tokenizer()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a tiny random model and its tokenizer, as ``save_pretrained`` writes them."""
    import torch
    from transformers import AutoModel, BertConfig

    from effective_attention.models.encoders import TinyEncoder

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=16)
    AutoModel.from_config(config).save_pretrained(folder)
    TinyEncoder().tokenizer().save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class TrainedRun:
    folder: Path
    metrics: dict[str, Any]
    console: str
    cfg: Any


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    """Run ``train`` once: tiny, MRPC sample, all attentions. The run is shared: do not write into its folder."""
    from effective_attention.run.experiment import train

    cfg = _compose("train", tmp_path_factory.mktemp("trained"), "attention=all")
    console = io.StringIO()
    with contextlib.redirect_stdout(console):
        metrics = train(cfg)
    return TrainedRun(Path(cfg.run_dir), metrics, console.getvalue(), cfg)


# --- a tiny model on real texts: heads of width 8, texts of 15 and more tokens: every null space is non-trivial ---


@pytest.fixture
def make_subject(tmp_path: Path) -> Callable[..., Any]:
    return lambda **options: build_subject(tmp_path, **options)


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build_subject(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def context(subject: Any) -> Any:
    metrics = {
        "test/standard/timed_batches": 9,
        "test/standard/seconds": 2.0,
        "test/standard/examples_per_second": 4.5,
        "test/effective/timed_batches": 9,
        "test/effective/seconds": 3.0,
        "test/effective/examples_per_second": 3.0,
        "test/effective/seconds_ratio": 1.5,
        "test/effective/seconds_ratio_low": 1.4,
        "test/effective/seconds_ratio_high": 1.8,
    }
    return subject.context(seed=0, task=subject.data.task, facts=metrics)


@pytest.fixture(scope="module")
def singles(subject: Any) -> list[Any]:
    """Trace every example alone, so without any padding: what the naive oracles loop over."""
    return [subject.trace([index]) for index in range(len(subject.split))]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start headless Chromium, as a Playwright ``Browser``; each test opens its own pages or contexts."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install -e '.[dev]'")
    place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if place is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    quiet = ("no-sandbox", "disable-gpu", "disable-quic", "disable-dev-shm-usage")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=place, args=[f"--{flag}" for flag in quiet])
        yield browser
        browser.close()
