"""Text files in pieces, whole and broken."""

from __future__ import annotations

import bz2
import gzip
import zipfile

import pytest

from npvi.datasets.text import BrokenFileError, Delimited, FixedWidth

TABLE = 'Name, Count ,place\nheron,3,"pond, north"\n\nwren, 12 ,wall\n'


def read(path, columns=("count", "PLACE"), **options):
    return list(Delimited(path, columns, **options))


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "csv.bz2", "zip"])
def test_columns_of_all_kinds_of_files(tmp_path, kind):
    path = tmp_path / f"birds.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("birds.csv", TABLE)
    else:
        pack = {"csv": bytes, "csv.gz": gzip.compress, "csv.bz2": bz2.compress}[kind]
        path.write_bytes(pack(b"\xef\xbb\xbf" + TABLE.encode()))  # with a byte order mark, as spreadsheets write
    assert read(path) == [("3", "pond, north"), ("12", "wall")]
    assert read(path, ["name"]) == [("heron",), ("wren",)]


def test_between_tabs_quotes_are_letters(tmp_path):
    path = tmp_path / "lists.txt"
    path.write_text('a\tb\t\n1\t6" of snow\t\n2\tnone\t\r\n3\tno tab at the end\n')
    assert read(path, ["a", "b"], separator="\t") == [("1", '6" of snow'), ("2", "none"), ("3", "no tab at the end")]


def test_other_encodings_do_not_stop_it(tmp_path):
    path = tmp_path / "routes.csv"
    path.write_bytes("Name,Count,Place\nhéron,3,étang\n".encode("latin-1"))
    assert read(path, ["count"]) == [("3",)]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("name,count,place\na,1,x\nb,2\n", 3, "the line is cut off: 2 fields, where 3 should be"),
        ("name,count,place\na,1,x,y\n", 2, "the line is too long: 4 fields, where 3 should be"),
        ("name,number,place\na,1,x\n", 1, "no column count; expected count, PLACE, found name, number, place"),
        ("", 1, "no column count; expected count, PLACE, found nothing"),
        ('name,count,place\na,1,x\nb,2,"' + "z" * 140_000, 3, "this is not a line of a table"),
    ],
)
def test_broken_tables(tmp_path, text, line, what):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(BrokenFileError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {what}")


def test_broken_fields(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text("name,count\na,1\nb,many\n")
    lines = Delimited(path, ["count"])
    _, (text,) = lines
    for call, what in [
        (lambda: lines.whole("count", text), "a whole number should be"),
        (lambda: lines.number("count", text), "a number should be"),
        (lambda: lines.date("count", text), "a date such as 2012-02-29 should be"),
        (lambda: lines.code("count", text, ("0", "1")), "'0' or '1' should be"),
    ]:
        with pytest.raises(BrokenFileError, match=rf"broken\.csv, line 3: 'many' in column count, where {what}"):
            call()
    for text in ("91", "nan", "-inf"):
        with pytest.raises(
            BrokenFileError, match=rf"'{text}' in column count, where a number from -90 to 90 should be"
        ):
            lines.number("count", text, -90, 90)


@pytest.mark.parametrize("kind", [".gz", ".bz2"])
def test_a_download_that_broke_off(tmp_path, kind):
    path = tmp_path / f"big.csv{kind}"
    whole = "name,count,place\n" + "".join(f"bird,{n},{n * 7919 % 10007}\n" for n in range(200_000))
    packed = (gzip if kind == ".gz" else bz2).compress(whole.encode())
    path.write_bytes(packed[: len(packed) // 2])
    seen = []
    with pytest.raises(
        BrokenFileError, match=r"line \d+: from here on the file cannot be read .*is it whole\?"
    ) as caught:
        seen.extend(Delimited(path, ["count"]))
    line = int(str(caught.value).partition(", line ")[2].partition(":")[0])
    assert line == len(seen) + 1 > 1000  # the line of names, and all that came out


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.csv"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(BrokenFileError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "not.gz").write_text(TABLE)
    with pytest.raises(BrokenFileError, match=r"not\.gz, line 1: from here on"):
        read(tmp_path / "not.gz")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("one.csv", TABLE)
        archive.writestr("two.csv", TABLE)
    with pytest.raises(ValueError, match=r"two\.zip has 2 files in it, where one should be; unpack it"):
        read(tmp_path / "two.zip")


def test_lines_with_a_key_alone(tmp_path):
    path = tmp_path / "planes.csv"
    path.write_text("tail,maker,year\nN1\nN2,BOEING,1999\nN3,BOEING\n")
    lines = iter(Delimited(path, ["tail", "year"], lone_key=True))
    assert [next(lines), next(lines)] == [("N1", ""), ("N2", "1999")]
    with pytest.raises(BrokenFileError, match=r"line 4: the line is cut off: 2 fields"):
        next(lines)


def test_fixed_width(tmp_path):
    path = tmp_path / "stations.txt"
    path.write_text("AB  1.5 x\r\n\nCD -2.5\nE\n")
    lines = iter(FixedWidth(path, [(1, 2), (3, 7), (9, 9)], shortest=7))
    assert [next(lines), next(lines)] == [("AB", "1.5", "x"), ("CD", "-2.5", "")]
    with pytest.raises(BrokenFileError, match=r"line 4: the line is cut off: 1 characters, where at least 7 should be"):
        next(lines)


def test_progress_is_reported(tmp_path, monkeypatch):
    from npvi.runtime.progress import reporting

    monkeypatch.setattr("npvi.datasets.text._REPORT", 100)
    path = tmp_path / "long.csv"
    path.write_text("count\n" + "1\n" * 250)
    heard = []
    with reporting(lambda stage, numbers: heard.append((stage, dict(numbers)))):
        list(Delimited(path, ["count"]))
    assert heard == [("reading long.csv", {"million_lines": 1e-4}), ("reading long.csv", {"million_lines": 2e-4})]


@pytest.mark.parametrize("path", [0, 2.5, None, b"a"], ids=str)
def test_what_is_no_path(path):
    for read in (lambda: Delimited(path, ["a"]), lambda: FixedWidth(path, [(1, 4)], shortest=4)):
        with pytest.raises(TypeError, match="the table must be text or a path"):
            read()
