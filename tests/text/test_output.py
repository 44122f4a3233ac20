"""CSV that a spreadsheet opens."""

import csv
import io

import pytest

from streaming.text.output import write_csv


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1+cmd", "'+1+cmd"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("-5", "-5"),
        ("+1.5", "+1.5"),
        ("broker-a:0", "broker-a:0"),
        ("", ""),
    ],
)
def test_no_name_becomes_a_formula(text: str, written: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_csv(["name"], [{"name": text}]) == 1
    assert list(csv.DictReader(io.StringIO(capsys.readouterr().out))) == [{"name": written}]
