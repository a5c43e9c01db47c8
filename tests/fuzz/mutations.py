"""Mutated sweep files and model files, and wrong command lines; the same for the same random generator."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from typing import Any

import torch

COMMENT = re.compile(r"(^|\s)#[^\n]*", re.MULTILINE)
WORD = re.compile(r"[\w.+-]+")
# Values of wrong types and sizes, and what YAML treats specially.
ODD_VALUES = (
    *("-1", "0", "1", "1.5", "-0.0", "1e400", "1e308", ".inf", "-.inf", ".nan", "1_000", "0x10", "0o17", "1:30"),
    *("9" * 30, "9" * 5000, "2147483648", "4294967296", "1" * 300 + ".5", "null", "~", "true", "off", "no"),
    *('""', '"\\0"', '"\\ud800"', '"\\x1b[31m"', '"\\u202e"', '"\\n"', "'", '"', "é𝒳", "\u202e", "\x85", "\ufeff"),
    *("[]", "{}", "[1, 1]", "[a, [b]]", "{a: b}", "{a: [1, 2]}", "[" * 400 + "]" * 400, "{a: " * 300 + "}" * 300),
    *("&a [*a]", "*a", "&a 1", "!!python/object/apply:os.system [ls]", "!!binary abc", "!!int x", "!x y", "<<", "="),
    *("2001-01-01", "?", "-", "|", ">", "%", "@", "`", "a: b: c", "- -", "\t", "#", "---", "...", "IDW", "Two_Moons"),
    *("two_moons", "idw", "sgd", "kmeans", "regression", "csv", "/dev/zero", "../..", "data.csv", "~nobody/x"),
)
ODD_CHARACTERS = "{}[],:#&*!|>'\"%@`\\-?\0\x07\x1b\t\r\n\x85\u2028\u202e\ufeff𝒳é 0a"

Mutation = Callable[[random.Random, str], str]


def _lines(change: Callable[[random.Random, list[str]], None]) -> Mutation:
    def mutation(draw: random.Random, text: str) -> str:
        lines = text.splitlines()
        if lines:
            change(draw, lines)
        return "\n".join(lines) + "\n"

    return mutation


def _place(draw: random.Random, lines: list[str]) -> int:
    return draw.randrange(len(lines))


def _delete_line(draw: random.Random, lines: list[str]) -> None:
    del lines[_place(draw, lines)]


def _double_line(draw: random.Random, lines: list[str]) -> None:
    place = _place(draw, lines)
    lines.insert(draw.randrange(len(lines) + 1), lines[place])


def _swap_lines(draw: random.Random, lines: list[str]) -> None:
    one, other = _place(draw, lines), _place(draw, lines)
    lines[one], lines[other] = lines[other], lines[one]


def _indent_line(draw: random.Random, lines: list[str]) -> None:
    place = _place(draw, lines)
    lines[place] = draw.choice([" ", "  ", "\t", ""]) + lines[place][draw.randrange(3) :]


def _replace_word(draw: random.Random, text: str, value: Callable[[str], str]) -> str:
    words = list(WORD.finditer(text))
    if not words:
        return text
    word = draw.choice(words)
    return text[: word.start()] + value(word[0]) + text[word.end() :]


def _odd_value(draw: random.Random, text: str) -> str:
    return _replace_word(draw, text, lambda word: draw.choice(ODD_VALUES))


def _other_word(draw: random.Random, text: str) -> str:
    return _replace_word(draw, text, lambda word: draw.choice(WORD.findall(text)))


def _misspelt_word(draw: random.Random, text: str) -> str:
    return _replace_word(draw, text, lambda word: draw.choice([word.upper(), word[1:], word + word[-1:], word[::-1]]))


def _odd_character(draw: random.Random, text: str) -> str:
    place = draw.randrange(len(text) + 1)
    return text[:place] + draw.choice(ODD_CHARACTERS) + text[place + draw.randrange(2) :]


def _cut(draw: random.Random, text: str) -> str:
    return text[: draw.randrange(len(text) + 1)]


TEXT_MUTATIONS: tuple[Mutation, ...] = (
    *map(_lines, (_delete_line, _double_line, _swap_lines, _indent_line)),
    *(_odd_value, _odd_value, _odd_value, _other_word, _misspelt_word, _odd_character, _cut),
)


def mutated_text(draw: random.Random, text: str) -> bytes:
    """Return YAML without its comments and with one to three mutations, in some cases with a byte that is no UTF-8."""
    text = COMMENT.sub("", text)
    for _ in range(draw.choice([1, 1, 2, 3])):
        text = draw.choice(TEXT_MUTATIONS)(draw, text)
    content = text.encode("utf-8", "surrogatepass")
    return changed_bytes(draw, content) if draw.random() < 0.05 else content


def changed_bytes(draw: random.Random, content: bytes) -> bytes:
    """Return bytes with some flipped, cut off, swapped, repeated or overwritten."""
    first, second, third = sorted(draw.randrange(len(content) + 1) for _ in range(3))
    way = draw.choice(["flip", "flip", "flip", "flip", "cut", "swap", "repeat", "zero", "insert"])
    if way == "cut":
        return content[:second]
    if way == "swap":
        return content[:first] + content[second:third] + content[first:second] + content[third:]
    if way == "repeat":
        return content[:second] + content[first:second] + content[second:]
    if way == "insert":
        return content[:first] + draw.randbytes(draw.randrange(1, 20)) + content[first:]
    if way == "zero":
        end = min(second, first + 64)
        return content[:first] + bytes(end - first) + content[end:]
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 4, 16])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


CARD = "model.json"
ODD_FACTS: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 10**30, 1.5, 1e308, -0.0, float("nan"), float("inf"), "9" * 5000, "x" * 9999),
    *("", "x", "a\nb", "\x1b[31m", "\u202e", "\0", "idw", "two_moons", "regression", [], [1], ["a", "b"], ["a", "a"]),
    *({}, {"a": 1}, {"name": "csv", "path": "/dev/zero"}, [[[[[]]]]], {"": None}, ["\ud800"]),
)


def changed_facts(draw: random.Random, facts: Any) -> Any:
    """Return nested mappings and lists with one value replaced, left out, or added."""
    if isinstance(facts, dict) and facts and draw.random() < 0.9:
        name = draw.choice(list(facts))
        changed = dict(facts)
        way = draw.random()
        if way < 0.1:
            del changed[name]
        elif way < 0.2:
            changed[draw.choice(["x", "power", "kind", "version"])] = draw.choice(ODD_FACTS)
        else:
            changed[name] = changed_facts(draw, facts[name])
        return changed
    if isinstance(facts, list) and facts and draw.random() < 0.6:
        place = draw.randrange(len(facts))
        return [*facts[:place], changed_facts(draw, facts[place]), *facts[place + 1 :]]
    return draw.choice(ODD_FACTS)


def _changed_tensor(draw: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    ways: list[Callable[[], torch.Tensor]] = [
        lambda: tensor[:-1] if tensor.ndim else tensor,
        lambda: tensor.double() if tensor.dtype == torch.float32 else tensor.float(),
        lambda: tensor.flatten(),
        lambda: tensor[None],
        lambda: tensor * float(draw.choice(["nan", "inf", "-1", "0", "1e30", "1e-45"])),
        lambda: tensor.to(draw.choice([torch.int64, torch.bool, torch.bfloat16, torch.complex64])),
        lambda: torch.zeros(0),
        lambda: tensor.mT if tensor.ndim == 2 else tensor,
    ]
    return draw.choice(ways)()


def changed_pt(draw: random.Random, content: bytes) -> bytes:
    """Return the content of a .pt file with another card or tensor, in the form of today or that of version 1."""
    fields = torch.load(io.BytesIO(content), weights_only=True)
    card = json.loads(fields.pop(CARD))
    if draw.random() < 0.7:  # otherwise few changes would pass the checksum
        card.pop("sha256")
    changed = _changed_fields(draw, {**card, **fields})
    if isinstance(changed, dict) and draw.random() < 0.7:
        tensors = {name: value for name, value in changed.items() if isinstance(value, torch.Tensor)}
        changed = {CARD: json.dumps({name: value for name, value in changed.items() if name not in tensors}), **tensors}
    buffer = io.BytesIO()
    torch.save(changed, buffer)
    return buffer.getvalue()


def changed_safetensors(draw: random.Random, content: bytes) -> bytes:
    """Return the content of a .safetensors file with another card, tensor or header."""
    import safetensors.torch

    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if draw.random() < 0.3:
        changed = json.dumps(changed_facts(draw, header)).encode()
        return len(changed).to_bytes(8, "little") + changed + content[8 + length :]
    fields = {**json.loads(header["__metadata__"][CARD]), **safetensors.torch.load(content)}
    if draw.random() < 0.7:  # otherwise few changes would pass the checksum
        fields.pop("sha256")
    fields = _changed_fields(draw, fields)
    if not isinstance(fields, dict):
        fields = {"x": fields}
    tensors = {name: value.contiguous() for name, value in fields.items() if isinstance(value, torch.Tensor)}
    facts = {name: value for name, value in fields.items() if name not in tensors}
    return safetensors.torch.save(tensors, {draw.choice([CARD, "idwbench-model"]): json.dumps(facts)})


def _changed_fields(draw: random.Random, fields: dict[str, Any]) -> Any:
    tensors = [name for name, value in fields.items() if isinstance(value, torch.Tensor)]
    if draw.random() < 0.3:
        name = draw.choice(tensors)
        return {**fields, name: _changed_tensor(draw, fields[name])}
    facts = changed_facts(draw, {name: value for name, value in fields.items() if name not in tensors})
    return {**facts, **{name: fields[name] for name in tensors}} if isinstance(facts, dict) else facts


def mutated_model(draw: random.Random, content: bytes, suffix: str) -> bytes:
    """Return the content of a model file, changed in its bytes or in what it holds."""
    if draw.random() < 0.5:
        return changed_bytes(draw, content)
    return changed_pt(draw, content) if suffix == ".pt" else changed_safetensors(draw, content)
