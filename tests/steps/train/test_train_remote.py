"""Training into an object store: the same bits as on a local disk, through an interruption too, and nothing left behind here."""

import shutil
from pathlib import Path

import pytest

from marin_exec import StepFailed
from steps import files
from steps.evaluate.checkpoint import CheckpointEvaluationConfig, evaluate_checkpoint
from steps.train.content import content_digest
from steps.train.language_model import train_language_model
from tests.directory_out import DirectoryOut
from tests.steps.train.training_runs import LastingOut, tiny_config, write_inputs


class Interrupted(Exception):
    pass


class RemoteOut(DirectoryOut):
    """An `Out` at a URL."""

    stop_at = 0

    def __init__(self, url: str):
        super().__init__(Path("unused"))
        self.path = url

    def file(self, relative):
        return f"{self.path}/{relative}"

    def progress(self, message, *, done=None, total=None):
        if done == self.stop_at:
            raise Interrupted
        super().progress(message, done=done, total=total)

    def publish(self, name, result=None):
        assert files.names_in(self.file(name)), f"published {name} does not exist"
        self._milestones.setdefault(name, result)

    def milestones(self, prefix=""):
        return [type(each)(each.name, self.file(each.name), each.result) for each in super().milestones(prefix)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


def test_train_into_an_object_store_interrupted_and_resumed_equals_a_local_run(
    remote, inputs, compiled, tmp_path, monkeypatch
):
    here = tmp_path / "here"
    whole = train_language_model(tiny_config(inputs, num_steps=8), LastingOut(here))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    there = {name: f"{remote}/{name}" for name in inputs}
    for name, path in inputs.items():
        with files.local_folder(there[name]) as folder:
            shutil.copytree(path, folder, dirs_exist_ok=True)
    config, out = tiny_config(there, num_steps=8), RemoteOut(f"{remote}/run")
    out.stop_at = 5
    with pytest.raises(Interrupted):
        train_language_model(config, out)
    out.stop_at = 0
    result = train_language_model(config, out)
    assert result.resumed_from_step == 4
    assert content_digest(out.path) == content_digest(str(here))
    assert result.macro_loss == whole.macro_loss and result.final_loss == whole.final_loss
    scored = evaluate_checkpoint(
        CheckpointEvaluationConfig(checkpoint=out.file("checkpoints/step-8"), evaluation=there["evaluation"]),
        RemoteOut(f"{remote}/scored"),
    )
    assert scored.macro_loss == whole.macro_loss
    assert not list(temporary.iterdir())


def test_checkpoint_in_an_object_store_with_other_bytes_is_refused(remote, inputs, compiled):
    out = RemoteOut(f"{remote}/run")
    train_language_model(tiny_config(inputs, num_steps=2, checkpoint_every=1.0), out)
    description = out.file("checkpoints/step-2/checkpoint.json")
    files.write_bytes(description, files.read_bytes(description).replace(b'"sha256": "', b'"sha256": "0'))
    config = CheckpointEvaluationConfig(checkpoint=out.file("checkpoints/step-2"), evaluation=inputs["evaluation"])
    with pytest.raises(StepFailed, match="damaged or of another model"):
        evaluate_checkpoint(config, RemoteOut(f"{remote}/scored"))
