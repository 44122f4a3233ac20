"""Text from elsewhere: what is written out, what stays, and what each form says when it is read back."""

import json
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from streaming.text.visible_text import visible, visible_json, visible_label, visible_name, visible_value

OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
OF_ARABIC_AND_OTHERS = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2") | {
    chr(code) for code in (0x110BD, 0x110CD, *range(0x13430, 0x13440))
}
"""Formats that are drawn: they enclose or join signs of scripts, and hide nothing."""

ANY = st.text(st.characters(), max_size=30)  # halves of pairs too


def test_what_is_read_stays_and_the_rest_is_written_out() -> None:
    every = {chr(code) for code in range(sys.maxunicode + 1)}
    obeyed = {one for one in every if unicodedata.category(one) in OBEYED} - OF_ARABIC_AND_OTHERS - {"\n", "\t"}
    assert [one for one in obeyed if visible(one) == one] == []
    for text in ("10.0.0.5@7#1", "orders%RETRY%|-_", "订单", "заказы", "طلب", "é", "a\u0301", "▲ → …", "😀", "a\n\tb"):
        assert visible(text) == text
    assert visible("\x1b[31m\u202e\U000e0041\ud800") == r"\x1b[31m\u202e\U000e0041\ud800"
    assert visible_name("a\n\tb") == r"a\x0a\x09b"
    assert visible_label('group="\u202e"\n') == 'group="\\\\u202e"\n'


@given(ANY)
def test_nothing_is_obeyed_in_any_form_and_writing_out_twice_changes_nothing(text: str) -> None:
    for shown in (visible(text), visible_name(text), visible_json(json.dumps(text, ensure_ascii=False))):
        bad = {one for one in shown if unicodedata.category(one) in OBEYED} - OF_ARABIC_AND_OTHERS
        assert bad <= {"\n", "\t"}
    assert visible(visible(text)) == visible(text)


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=5), st.booleans())
def test_json_says_the_same_value(value: object, is_ascii: bool) -> None:
    for indent in (None, 2):
        text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
        assert json.loads(visible_json(text)) == json.loads(json.dumps(json.loads(text)))  # halves may meet


def test_a_value_has_visible_names_and_texts_at_every_depth() -> None:
    assert visible_value({"\u200b": ["\x1b", 1, {"a": None}]}) == {r"\u200b": [r"\x1b", 1, {"a": None}]}
