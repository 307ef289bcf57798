"""A tiny ONNX model, written by hand: the mean of a text's token numbers as its only logit."""


def _field(number, value):
    """A field of a protobuf message: a whole number, or text, bytes and messages with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    body = bytes(value, "utf-8") if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _message(*fields):
    return b"".join(_field(number, value) for number, value in fields)


def _tensor(name, kind, *sizes):
    shape = b""
    for size in sizes:
        field = 1 if isinstance(size, int) else 2
        shape += _message((1, _message((field, size))))
    return _message((1, name), (2, _message((1, _message((1, kind), (2, shape))))))


def mean_of_tokens():
    """The model: input_ids (texts, tokens) as floats, and their mean over the tokens, (texts, 1)."""
    cast = _message((1, "input_ids"), (2, "x"), (4, "Cast"), (5, _message((1, "to"), (3, 1), (20, 2))))
    mean = _message((1, "x"), (2, "logits"), (4, "ReduceMean"), (5, _message((1, "axes"), (8, 1), (20, 7))))
    inputs, outputs = _tensor("input_ids", 7, "texts", "tokens"), _tensor("logits", 1, "texts", 1)
    graph = _message((1, cast), (1, mean), (2, "mean"), (11, inputs), (12, outputs))
    return _message((1, 8), (8, _message((1, ""), (2, 13))), (7, graph))
