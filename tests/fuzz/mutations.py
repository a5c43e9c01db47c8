"""Mutated sweep files and model files, and command lines with one fault; the same for the same random generator."""

import io
import json
import re

import safetensors.torch
import torch
from case_tables import case_table

COMMENT = re.compile(r"(^|\s)#[^\n]*", re.MULTILINE)
WORD = re.compile(r"[\w.+-]+")
ODD = case_table("odd_values")
LONG_VALUES = ("9" * 5000, "1" * 300 + ".5", "[" * 400 + "]" * 400, "{a: " * 300 + "}" * 300)
ODD_VALUES = [*ODD["values"], *LONG_VALUES]
ODD_CHARACTERS = "{}[],:#&*!|>'\"%@`\\-?\0\x07\x1b\t\r\n\x85\u2028\u202e\ufeff𝒳é 0a"


def changed_line(draw, text):
    """Return a text with a line left out, doubled, swapped with another, or indented otherwise."""
    lines = text.splitlines()
    if not lines:
        return text
    place, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.choice(["delete", "double", "swap", "indent"]):
        case "delete":
            del lines[place]
        case "double":
            lines.insert(other, lines[place])
        case "swap":
            lines[place], lines[other] = lines[other], lines[place]
        case _:
            lines[place] = draw.choice([" ", "  ", "\t", ""]) + lines[place][draw.randrange(3) :]
    return "\n".join(lines) + "\n"


def changed_word(draw, text):
    """Return a text with an odd value, another of its words, or a misspelling in place of a word."""
    words = list(WORD.finditer(text))
    if not words:
        return text
    word, other = draw.choice(words), draw.choice(words)[0]
    misspelt = (word[0].upper(), word[0][1:], word[0] + word[0][-1:], word[0][::-1])
    value = draw.choice(draw.choice([ODD_VALUES, ODD_VALUES, ODD_VALUES, [other], misspelt]))
    return text[: word.start()] + value + text[word.end() :]


def changed_character(draw, text):
    """Return a text with an odd character, or cut off."""
    place = draw.randrange(len(text) + 1)
    if draw.random() < 0.5:
        return text[:place]
    return text[:place] + draw.choice(ODD_CHARACTERS) + text[place + draw.randrange(2) :]


TEXT_MUTATIONS = (*[changed_line] * 4, *[changed_word] * 5, *[changed_character] * 2)


def mutated_text(draw, text):
    """Return YAML without its comments and with one to three mutations, in some cases with a byte that is no UTF-8."""
    text = COMMENT.sub("", text)
    for _ in range(draw.choice([1, 1, 2, 3])):
        text = draw.choice(TEXT_MUTATIONS)(draw, text)
    content = text.encode("utf-8", "surrogatepass")
    return changed_bytes(draw, content) if draw.random() < 0.05 else content


def changed_bytes(draw, content):
    """Return bytes with some flipped, cut off, swapped, repeated or overwritten."""
    first, second, third = sorted(draw.randrange(len(content) + 1) for _ in range(3))
    match draw.choice(["flip", "flip", "flip", "flip", "cut", "swap", "repeat", "zero", "insert"]):
        case "cut":
            return content[:second]
        case "swap":
            return content[:first] + content[second:third] + content[first:second] + content[third:]
        case "repeat":
            return content[:second] + content[first:second] + content[second:]
        case "insert":
            return content[:first] + draw.randbytes(draw.randrange(1, 20)) + content[first:]
        case "zero":
            end = min(second, first + 64)
            return content[:first] + bytes(end - first) + content[end:]
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 4, 16])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


CARD = "model.json"
ODD_FACTS = [*ODD["facts"], "9" * 5000, "x" * 9999, ["\ud800"]]


def changed_facts(draw, facts):
    """Return nested mappings and lists with one value replaced, left out, or added."""
    if isinstance(facts, dict) and facts and draw.random() < 0.9:
        name, way = draw.choice(list(facts)), draw.random()
        if way < 0.1:
            return {other: value for other, value in facts.items() if other != name}
        if way < 0.2:
            return {**facts, draw.choice(["x", "power", "kind", "version"]): draw.choice(ODD_FACTS)}
        return {**facts, name: changed_facts(draw, facts[name])}
    if isinstance(facts, list) and facts and draw.random() < 0.6:
        place = draw.randrange(len(facts))
        return [*facts[:place], changed_facts(draw, facts[place]), *facts[place + 1 :]]
    return draw.choice(ODD_FACTS)


def _changed_tensor(draw, tensor):
    ways = [
        tensor[:-1] if tensor.ndim else tensor,
        tensor.double() if tensor.dtype == torch.float32 else tensor.float(),
        tensor.flatten(),
        tensor[None],
        tensor * float(draw.choice(["nan", "inf", "-1", "0", "1e30", "1e-45"])),
        tensor.to(draw.choice([torch.int64, torch.bool, torch.bfloat16, torch.complex64])),
        torch.zeros(0),
        tensor.mT if tensor.ndim == 2 else tensor,
    ]
    return draw.choice(ways)


def changed_pt(draw, content):
    """Return the content of a .pt file with another card or tensor, in the form of today or that of version 1."""
    fields = torch.load(io.BytesIO(content), weights_only=True)
    changed = _changed_fields(draw, {**json.loads(fields.pop(CARD)), **fields})
    if isinstance(changed, dict) and draw.random() < 0.7:
        tensors, facts = _parts(changed)
        changed = {CARD: json.dumps(facts), **tensors}
    buffer = io.BytesIO()
    torch.save(changed, buffer)
    return buffer.getvalue()


def changed_safetensors(draw, content):
    """Return the content of a .safetensors file with another card, tensor or header."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if draw.random() < 0.3:
        changed = json.dumps(changed_facts(draw, header)).encode()
        return len(changed).to_bytes(8, "little") + changed + content[8 + length :]
    fields = _changed_fields(draw, {**json.loads(header["__metadata__"][CARD]), **safetensors.torch.load(content)})
    tensors, facts = _parts(fields if isinstance(fields, dict) else {"x": fields})
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    return safetensors.torch.save(tensors, {draw.choice([CARD, "idwbench-model"]): json.dumps(facts)})


def _parts(fields):
    """Return the tensors, and the rest."""
    tensors = {name: value for name, value in fields.items() if isinstance(value, torch.Tensor)}
    return tensors, {name: value for name, value in fields.items() if name not in tensors}


def _changed_fields(draw, fields):
    if draw.random() < 0.7:  # otherwise few changes would pass the checksum
        fields.pop("sha256")
    tensors, facts = _parts(fields)
    if draw.random() < 0.3:
        name = draw.choice(list(tensors))
        return {**fields, name: _changed_tensor(draw, tensors[name])}
    facts = changed_facts(draw, facts)
    return {**facts, **tensors} if isinstance(facts, dict) else facts


def mutated_model(draw, content, suffix):
    """Return the content of a model file, changed in its bytes or in what it holds."""
    changes = {".pt": changed_pt, ".safetensors": changed_safetensors}
    return draw.choice([changed_bytes, changes[suffix]])(draw, content)


# Words by the names that stand for them in the table of wrong command lines.
LISTS = {**ODD["lists"], "TWO_WORDS": ODD["lists"]["WORDS"][:2], "FEW_NUMBERS": ODD["lists"]["NUMBERS"][:4]}
for name, long in {"NUMBERS": "9" * 400, "WORDS": "x" * 3000, "NO_FILES": "x" * 300}.items():
    LISTS[name] = [*LISTS[name], long]
LISTS["LATER_FILES"] = LISTS["NO_FILES"][5:]


def listed(words):
    """Return words with those of a list in place of its name."""
    return [word for name in words for word in LISTS.get(name, [name])]


# The words of a command, and those of which one makes it wrong.
FAULTS = [(listed(words), listed(wrong)) for words, wrong in case_table("wrong_command_lines")]


def wrong_command(draw):
    """Return the words of a command line with a fault."""
    begin, values = draw.choice(FAULTS)
    return [*begin, draw.choice(values)]
