"""The folder of a run: what is refused, what is never deleted or overwritten, and that two runs never mix."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from samples import command, image_folder, table

from rockafellian.auditing.commands import run as running
from rockafellian.auditing.commands import run_folder

QUICK = ("--label", "label", "--epochs", 10, "--contamination", 0.2)


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its content, and every link with its target."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.csv, decisions.csv and a finished run."""
    folder = tmp_path_factory.mktemp("trained")
    table(60)[0].to_csv(folder / "data.csv", index=False)
    (folder / "decisions.csv").write_text("index,id,decision,label\n1,row-0001,drop,\n")
    patch = pytest.MonkeyPatch()
    assert command(patch, "audit", folder / "data.csv", "--out", folder / "run", *QUICK) == 0
    patch.undo()
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of it, whose data have moved along."""
    folder = tmp_path / "copied"
    shutil.copytree(trained, folder)
    described = json.loads((folder / "run" / "settings.json").read_text())
    described["data"] = str(folder / "data.csv")
    (folder / "run" / "settings.json").write_text(json.dumps(described))
    sealed = json.loads((folder / "run" / "DONE").read_text())
    sealed["settings.json"] = run_folder.file_checksum(folder / "run" / "settings.json")
    (folder / "run" / "DONE").write_text(json.dumps(sealed))
    return folder


def refused(monkeypatch: pytest.MonkeyPatch, capsys: Any, folder: Path, *arguments: object) -> str:
    """The one line of an error; nothing below the folder has changed."""
    before = snapshot(folder)
    capsys.readouterr()
    assert command(monkeypatch, *arguments) == 2
    shown: str = capsys.readouterr().err
    assert [line for line in shown.splitlines() if line.startswith("error: ")] == shown.splitlines()[-1:]
    assert snapshot(folder) == before
    return shown


@pytest.mark.parametrize("name", ["cleaned.csv", "relabeled.csv", "findings.csv"])
@pytest.mark.parametrize("flags", [("--force",), ()])
def test_a_run_does_not_replace_its_own_input(
    name: str, flags: tuple[str, ...], copied: Path, monkeypatch: Any, capsys: Any
) -> None:
    run = copied / "run"
    shown = refused(monkeypatch, capsys, copied, "audit", run / name, "--out", run, *QUICK, *flags)
    assert "lies in" in shown


def test_validation_data_in_the_folder_of_the_run_are_not_replaced_either(
    copied: Path, monkeypatch: Any, capsys: Any
) -> None:
    run = copied / "run"
    arguments = ("audit", copied / "data.csv", "--valid", run / "cleaned.csv", "--out", run, *QUICK, "--force")
    assert "lies in" in refused(monkeypatch, capsys, copied, *arguments)


def test_a_folder_reached_by_a_link_is_the_same_folder(copied: Path, monkeypatch: Any, capsys: Any) -> None:
    (copied / "link").symlink_to("run")
    arguments = ("audit", copied / "link" / "cleaned.csv", "--out", copied / "run", *QUICK, "--force")
    assert "lies in" in refused(monkeypatch, capsys, copied, *arguments)


def test_nothing_is_exported_over_a_file_that_exists(copied: Path, monkeypatch: Any, capsys: Any) -> None:
    (copied / "tasks.xml").write_text("mine")
    arguments = ("export", copied / "run", "--out", copied / "tasks.json")
    assert "tasks.xml exists" in refused(monkeypatch, capsys, copied, *arguments)
    assert command(monkeypatch, *arguments, "--force") == 0
    assert (copied / "tasks.xml").read_text().startswith("<View>")


def test_tasks_do_not_go_where_their_labeling_interface_goes(copied: Path, monkeypatch: Any, capsys: Any) -> None:
    assert ".json" in refused(monkeypatch, capsys, copied, "export", copied / "run", "--out", copied / "tasks.xml")


@pytest.mark.parametrize(
    "arguments", [("apply", "run", "decisions.csv"), ("predict", "run", "data.csv"), ("export", "run")]
)
@pytest.mark.parametrize("out", ["data.csv", "decisions.csv", "run"])
def test_no_command_writes_over_its_input_even_with_force(
    arguments: tuple[str, ...], out: str, copied: Path, monkeypatch: Any, capsys: Any
) -> None:
    if arguments[0] != "apply" and out == "decisions.csv":
        pytest.skip("not an input of this command")
    monkeypatch.chdir(copied)
    refused(monkeypatch, capsys, copied, *arguments, "--out", out, "--force")


@pytest.mark.parametrize("name", ["model", "checkpoint", "DONE", "findings.parquet", "model/model.json", "cleaned.csv"])
def test_links_in_the_folder_of_a_run_are_not_followed(name: str, copied: Path, monkeypatch: Any, capsys: Any) -> None:
    elsewhere, path = copied / "elsewhere", copied / "run" / name
    if path.exists():
        path.rename(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "checkpoint.safetensors").write_text("not ours")
    path.symlink_to(elsewhere)
    arguments = ("audit", copied / "data.csv", "--out", copied / "run", *QUICK)
    assert "is a link" in refused(monkeypatch, capsys, copied, *arguments, "--force")
    if name == "checkpoint":
        (copied / "run" / "DONE").unlink()
        assert "is a link" in refused(monkeypatch, capsys, copied, *arguments, "--resume")


def test_files_of_others_in_a_folder_that_a_run_replaces_are_not_deleted(
    copied: Path, monkeypatch: Any, capsys: Any
) -> None:
    (copied / "run" / "model" / "thesis.txt").write_text("mine")
    arguments = ("audit", copied / "data.csv", "--out", copied / "run", *QUICK, "--force")
    assert "thesis.txt" in refused(monkeypatch, capsys, copied, *arguments)


def test_a_run_that_is_being_cleared_does_not_say_done(copied: Path, monkeypatch: Any) -> None:
    deleted: list[str] = []

    def unlink(path: Path, missing_ok: bool = False) -> None:
        deleted.append(path.name)

    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(Path, "rmdir", lambda path: None)
    run_folder.clear(copied / "run")
    assert deleted[0] == "DONE"
    assert deleted.index("settings.json") > deleted.index("findings.parquet")


@pytest.mark.parametrize("name", ["settings.json", "summary.json", "findings.parquet", "model/model.json", "DONE"])
def test_a_file_of_a_run_that_changed_is_refused_by_who_reads_it(
    name: str, copied: Path, monkeypatch: Any, capsys: Any
) -> None:
    path = copied / "run" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content[: len(content) // 2] if name == "DONE" else content)
    run, data = copied / "run", copied / "data.csv"
    commands: dict[str, tuple[object, ...]] = {
        "show": ("show", run),
        "predict": ("predict", run, data, "--out", copied / "predicted.csv"),
        "apply": ("apply", run, copied / "decisions.csv", "--out", copied / "applied.csv"),
        "export": ("export", run, "--out", copied / "tasks.json"),
    }
    readers = {
        "settings.json": ("predict", "apply", "export"),
        "summary.json": ("show",),
        "findings.parquet": ("apply", "export"),
        "model/model.json": ("predict", "export"),
        "DONE": ("show", "predict", "apply", "export"),
    }
    for reader in readers[name]:
        shown = refused(monkeypatch, capsys, copied, *commands[reader])
        assert "changed" in shown or "DONE" in shown


def test_swapped_images_are_noticed_by_resume_apply_and_export(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    image_folder(tmp_path / "images", 40)
    arguments = ("audit", tmp_path / "images", "--out", tmp_path / "run", *QUICK[2:])
    assert command(monkeypatch, *arguments) == 0
    id_of_first = sorted(str(path.relative_to(tmp_path / "images")) for path in (tmp_path / "images").rglob("*.png"))[0]
    (tmp_path / "decisions.csv").write_text(f"index,id,decision,label\n0,{id_of_first},drop,\n")
    first, second = sorted((tmp_path / "images" / "dark").iterdir())[:2]
    a, b = first.read_bytes(), second.read_bytes()
    size = max(len(a), len(b))  # bytes after the end of a PNG mean nothing
    first.write_bytes(b.ljust(size, b"\0"))
    second.write_bytes(a.ljust(size, b"\0"))
    apply = ("apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", tmp_path / "out.csv")
    assert "has changed" in refused(monkeypatch, capsys, tmp_path, *apply)
    export = ("export", tmp_path / "run", "--out", tmp_path / "tasks.json")
    assert "has changed" in refused(monkeypatch, capsys, tmp_path, *export)
    (tmp_path / "run" / "DONE").unlink()
    assert "the images" in refused(monkeypatch, capsys, tmp_path, *arguments, "--resume")


def test_other_validation_data_of_equal_length_are_noticed_by_resume(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    valid, _ = table(30, share=0.0, seed=5)
    valid.to_csv(tmp_path / "valid.csv", index=False)
    arguments = ("audit", tmp_path / "data.csv", "--valid", tmp_path / "valid.csv", "--out", tmp_path / "run", *QUICK)
    assert command(monkeypatch, *arguments) == 0
    (tmp_path / "run" / "DONE").unlink()
    valid["label"] = valid["label"].map({"cat": "dog", "dog": "cat"})
    valid.to_csv(tmp_path / "valid.csv", index=False)
    assert "the validation data" in refused(monkeypatch, capsys, tmp_path, *arguments, "--resume")


@pytest.mark.parametrize("classes", [("=x", "'=x"), ("'tis", "tis"), ("''a", "'a"), ("-1", "'-1"), ("=", "'")])
def test_labels_with_apostrophes_come_back_from_a_spreadsheet(
    classes: tuple[str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    from rockafellian._internal.files import escape_formula

    frame, _ = table(60)
    frame["label"] = frame["label"].map(dict(zip(("cat", "dog"), classes, strict=True)))
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert command(monkeypatch, "audit", tmp_path / "data.csv", "--out", tmp_path / "run", *QUICK) == 0
    decided = [{"index": i, "id": f"row-{i:04d}", "decision": "relabel", "label": classes[i % 2]} for i in range(60)]
    decisions = pd.DataFrame(decided)
    decisions["label"] = decisions["label"].map(escape_formula)
    decisions.to_csv(tmp_path / "decisions.csv", index=False)
    arguments = ("apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", tmp_path / "out.csv")
    assert command(monkeypatch, *arguments) == 0
    assert pd.read_csv(tmp_path / "out.csv")["label"].tolist() == [each["label"] for each in decided]


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from rockafellian.auditing.commands.run_folder import hold\n"
    code += "with hold(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match="one writes to"), run_folder.hold(tmp_path):
        pass
    other.kill()  # which frees it
    other.wait()
    with run_folder.hold(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_of_two_runs_that_found_the_folder_free_the_second_is_refused(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    arguments = ("audit", tmp_path / "data.csv", "--out", tmp_path / "run", *QUICK)
    first = running.prepare

    def prepared_late(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(running, "prepare", first)
        assert command(monkeypatch, *arguments, "--seed", 7) == 0  # the other run, from its beginning to its end
        return first(*given, **options)

    monkeypatch.setattr(running, "prepare", prepared_late)
    assert command(monkeypatch, *arguments) == 2
    assert "holds one" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]["seed"] == 7
    assert command(monkeypatch, "show", tmp_path / "run") == 0


def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)

    def fails(*given: Any, **options: Any) -> Any:
        raise FloatingPointError("need finite losses, got NaN")

    monkeypatch.setattr(running, "train", fails)
    shown = refused(monkeypatch, capsys, tmp_path, "audit", tmp_path / "data.csv", "--out", tmp_path / "run", *QUICK)
    assert "finite losses" in shown
    assert not (tmp_path / "run").exists()


def test_what_a_killed_run_left_half_written_is_removed(copied: Path, monkeypatch: Any) -> None:
    run = copied / "run"
    (run / "DONE").unlink()
    (run / "report.html.999999999-01234567.partial").write_text("half")
    (run / "model" / "model.json.999999999-01234567.partial").write_text("half")
    assert command(monkeypatch, "audit", copied / "data.csv", "--out", run, *QUICK, "--resume") == 0
    assert not list(run.rglob("*.partial"))
