import json
import sys
import unicodedata

import pytest

from idwbench.errors import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p=2, ε=0.001 · ± 1\n\tb", "p=2, ε=0.001 · ± 1\n\tb"),
        ("\x1b[31mred\x07\r\0", r"\x1b[31mred\x07\r\x00"),
        ("a\u202eb\u2066", r"a\u202eb\u2066"),
        ("\x7f\x9b\x85\u2028", r"\u007f\u009b\u0085\u2028"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\udb40\udc41"),
        ("می\u200cخواهم\u3000日本\u00a0", "می\u200cخواهم\u3000日本\u00a0"),
    ],
)
def test_what_controls_a_terminal_is_escaped_and_writing_is_not(text, shown):
    assert printable(text) == shown


def test_no_control_character_of_unicode_passes():
    characters = map(chr, range(sys.maxunicode + 1))
    odd = "".join(char for char in characters if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs"))
    assert printable(odd, kept="").isprintable()
    passed = printable(odd)
    assert {unicodedata.category(char) for char in passed} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == {"Cc", "Cf"}
    assert {char for char in passed if unicodedata.category(char) in ("Cc", "Cf")} == set("\n\t\u200c\u200d")


def test_json_stays_json():
    content = {"a": "\x1b\x7f\x9b\u202e\U000e0041 é"}
    assert json.loads(printable(json.dumps(content, ensure_ascii=False))) == content
