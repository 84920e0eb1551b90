"""Where things are: the project, its configs, and real data that tests read where it is there."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
DATA = Path(os.environ.get("EFFECTIVE_ATTENTION_TEST_DATA") or ROOT.parent / "shared" / "data")
"""Another folder with the environment variable; tests that need what is not there are skipped, and say so."""
GLUE = DATA / "glue"
TREEBANK = DATA / "treebank"
