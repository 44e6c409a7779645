"""Reviews and comments in small files made here."""

import csv
import io
import json
import tarfile
from pathlib import Path

import pytest

from rockafellian_reproduction.data import texts

ACL = {
    "train/neg/2_1.txt": "train neg 2",
    "train/neg/10_3.txt": "train neg 10",
    "train/pos/0_9.txt": "train pos 0: caf\u00e9",
    "test/neg/0_2.txt": "test neg 0",
    "test/pos/1_10.txt": "test pos 1",
    "test/pos/0_7.txt": "test pos 0",
}
OTHERS = {"train/unsup/0_0.txt": "no label", "train/neg/urls.csv": "no text", "README": "no review"}


def expect(found: texts.Split) -> None:
    assert found.train == ["train neg 2", "train neg 10", "train pos 0: caf\u00e9"]
    assert found.train_y.tolist() == [0, 0, 1]
    assert found.test == ["test neg 0", "test pos 0", "test pos 1"]
    assert found.test_y.tolist() == [0, 1, 1]


def write_folder(folder: Path) -> None:
    for name, text in {**ACL, **OTHERS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def acl_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in {**OTHERS, **ACL}.items():
            info, content = tarfile.TarInfo(f"aclImdb/{name}"), text.encode()
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def test_reviews_come_in_the_order_of_their_numbers_negative_ones_first(tmp_path: Path) -> None:
    write_folder(tmp_path)
    expect(texts.read_acl_folder(tmp_path))


def test_the_archive_is_read_as_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(acl_archive())
    expect(texts.read_acl_archive(tmp_path / "a.tar.gz"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_a_cut_archive_is_refused_by_name(tmp_path: Path) -> None:
    whole = acl_archive()
    for cut in (0, 5, len(whole) // 2, len(whole) - 20):
        (tmp_path / "a.tar.gz").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"a\.tar\.gz is cut short or damaged"):
            texts.read_acl_archive(tmp_path / "a.tar.gz")


def test_a_review_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "test" / "pos" / "0_7.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"need a text in utf-8, but .*0_7\.txt is not"):
        texts.read_acl_folder(tmp_path)


def test_quarters_of_the_json_are_put_in_the_official_split(tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    names = ["test neg", "test neg", "train neg", "train neg", "test pos", "test pos", "train pos", "train pos"]
    rows = [{"t": f"{name} {i}", "s": int("pos" in name)} for i, name in enumerate(names)]
    path.write_text(json.dumps(rows))
    found = texts.read_reviews_json(path)
    assert found.train == ["train neg 2", "train neg 3", "train pos 6", "train pos 7"]
    assert found.test == ["test neg 0", "test neg 1", "test pos 4", "test pos 5"]
    assert found.train_y.tolist() == found.test_y.tolist() == [0, 0, 1, 1]
    for content in (json.dumps(rows[::-1]), json.dumps(rows[:-1]), "[1", "[1]", '[{"t": "x"}]', '{"t": "x", "s": 0}'):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"need .*reviews\.json"):
            texts.read_reviews_json(path)


def write_csv(path: Path, *rows: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


LONG = 'a "quoted", long\ncomment ' * 10_000


def test_kaggles_reviews_are_split_in_the_middle(tmp_path: Path) -> None:
    rows = [["one", "positive"], [LONG, "negative"], ["three", "positive"], ["four", "negative"]]
    found = texts.read_reviews_csv(write_csv(tmp_path / "r.csv", ["review", "sentiment"], *rows))
    assert found.train == ["one", LONG]
    assert found.train_y.tolist() == [1, 0]
    assert found.test == ["three", "four"]
    assert found.test_y.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"need sentiment positive or negative in .* got 'good'"):
        texts.read_reviews_csv(write_csv(tmp_path / "r.csv", ["review", "sentiment"], ["one", "good"]))


def test_jigsaws_six_columns_become_six_labels(tmp_path: Path) -> None:
    header = ["id", "comment_text", *texts.TOXIC]
    path = write_csv(tmp_path / "train.csv", header, ["1", LONG, *"100010"], ["2", "NA", *"000000"])
    found, labels = texts.read_jigsaw(path)
    assert found == [LONG, "NA"]
    assert labels.tolist() == [[1, 0, 0, 0, 1, 0], [0] * 6]
    with pytest.raises(ValueError, match="need columns identity_hate in"):
        texts.read_jigsaw(write_csv(path, header[:-1], ["1", "x", *"00000"]))


def test_a_long_comment_is_read_and_the_limit_of_csv_is_as_before(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    assert len(LONG) > before
    found, labels = texts.read_offensive(
        write_csv(tmp_path / "c.csv", ["is_offensive", "text"], ["1", LONG], ["0", ""])
    )
    assert found == [LONG, ""]
    assert labels.tolist() == [1, 0]
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"is_offensive,text\n2,x\n", "need labels 0 and 1 in .* got '2'"),
        (b"is_offensive,text\n1\n", "need 2 values in line 2 of"),
        (b"is_offensive,text\n1,a,b\n", "need 2 values in line 2 of"),
        (b"is_offensive,text\n1,caf\xe9\n", "need a csv in utf-8"),
        (b'is_offensive,text\n1,"never closed\n', "need a csv in utf-8, but"),
        (b"", "need columns is_offensive, text in"),
    ],
)
def test_a_csv_that_is_odd_is_refused(tmp_path: Path, content: bytes, match: str) -> None:
    before = csv.field_size_limit()
    (tmp_path / "c.csv").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        texts.read_offensive(tmp_path / "c.csv")
    assert csv.field_size_limit() == before
