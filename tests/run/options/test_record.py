"""What a run writes down holds no secret, and reads again as the same config."""

import pytest
from hypothesis import given
from omegaconf import DictConfig, OmegaConf

from effective_attention.run.options.record import recorded, recorded_yaml
from effective_attention.run.options.texts import escaped
from helpers.texts import texts


@pytest.fixture
def cfg(monkeypatch: pytest.MonkeyPatch) -> DictConfig:
    monkeypatch.setenv("SECRET", "hunter2")
    values = {
        "key": "${oc.env:SECRET}",
        "inside": ["a-${oc.env:SECRET}/b", {"same": "${key}"}],
        "other": "${number}",
        "number": 3,
        "default": "${oc.env:SECRET,none}",
        "text": r"\${oc.env:SECRET}",
    }
    return OmegaConf.create(values)


def test_a_secret_stays_where_it_is(cfg: DictConfig) -> None:
    assert cfg.key == "hunter2", "resolved once before, and remembered"
    assert "hunter2" not in recorded_yaml(cfg)
    assert recorded(cfg) == {
        "key": "${oc.env:SECRET}",
        "inside": ["a-${oc.env:SECRET}/b", {"same": "${oc.env:SECRET}"}],
        "other": 3,
        "number": 3,
        "default": "${oc.env:SECRET,none}",
        "text": "${oc.env:SECRET}",
    }


def test_what_is_written_reads_again_as_the_same(cfg: DictConfig) -> None:
    again = OmegaConf.create(recorded_yaml(cfg))
    assert OmegaConf.to_container(again, resolve=True) == OmegaConf.to_container(cfg, resolve=True)
    assert again.text == "${oc.env:SECRET}"
    assert again.key == "hunter2", "the variable is read again"


def test_the_environment_can_be_read_afterwards(cfg: DictConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(cfg)
    monkeypatch.setenv("SECRET", "another")
    assert OmegaConf.create({"key": "${oc.env:SECRET}"}).key == "another"
    with pytest.raises(Exception, match="Unsupported interpolation"):
        recorded(OmegaConf.create({"a": "${nothing:1}"}))
    assert OmegaConf.create({"key": "${oc.env:SECRET}"}).key == "another", "after an error too"


@given(texts)
def test_every_text_reads_again_as_itself(text: str) -> None:
    cfg = OmegaConf.create({"text": escaped(text)})
    assert recorded(cfg)["text"] == text
    assert OmegaConf.create(recorded_yaml(cfg)).text == text
