"""What the positions are that encodings make of tokens, as in reference.py, whose format it has."""

import itertools

import numpy as np


def abacus(e, params, case):
    """McLeish et al. (2024), 3.1: the place in a run of digits, from 1; 0 for other tokens.

    In training, one of 0 .. max_shift is added to those of the digits.
    """
    places = []
    for is_digit, run in itertools.groupby(token < e.digits for token in case.tokens):
        places += [place + 1 if is_digit else 0 for place, _ in enumerate(run)]

    def outcomes(train):
        most = 4 * e.dims.train_len if e.max_shift is None else e.max_shift
        shifts = range(most + 1) if train else [0]
        return sorted({tuple(p and p + shift for p in places) for shift in shifts})

    return {"positions": outcomes}


def position_coupling(e, params, case):
    """Cho et al. (2024), 3.1: s for separators, s + the distance to one for others, 0 for END.

    The separator is the next one in the input, or the last one, and the last one in the answer.
    """
    tokens, END = case.tokens.tolist(), e.digits
    L = len(tokens)
    equals = tokens.index(e.equals) if e.equals in tokens else L
    distances = []
    for i, token in enumerate(tokens):
        separators = [j for j in range(L) if tokens[j] > END]
        last = max([j for j in separators if j <= i], default=-1)
        following = min([j for j in separators if j >= i], default=i)
        distance = following - i if e.backwards and i < equals else i - last
        distances.append(None if token == END else distance)

    def outcomes(train):
        most = 4 * e.dims.train_len if e.max_position is None else e.max_position
        furthest = max((d for d in distances if d is not None), default=0)
        starts = range(1, max(most - furthest, 1) + 1) if train else [1]
        return sorted({tuple(0 if d is None else s + d for d in distances) for s in starts})

    return {"positions": outcomes}


def bipe(e, params, case):
    """He et al. (2024), 3.1: x + P[place in the segment], and the number of the segment for a
    position. As in their code a segment's last token is its end, and P's last row serves all
    places beyond it.
    """
    places, segments = [0], [0]
    for token in case.tokens[:-1]:
        ended = token in e.ends
        places.append(0 if ended else places[-1] + 1)
        segments.append(segments[-1] + ended)
    moved = [tuple(e.stride * number for number in segments)]
    if "table" not in params:
        return {"positions": lambda train: moved}
    last = len(params["table"]) - 1
    embedded = [x + params["table"][min(p, last)] for x, p in zip(case.x, places, strict=True)]
    return {"positions": lambda train: moved, "embed": np.array(embedded)}
