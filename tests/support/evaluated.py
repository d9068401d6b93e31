"""Models of several seeds, and their scores in the order of a record."""

from typing import NamedTuple

import jax

from pe_jax.data.tokenizer import BYTES
from pe_jax.evaluation.evaluate import cuts_of, evaluate, longest
from pe_jax.evaluation.passes import key_of
from pe_jax.evaluation.scoring import Models
from pe_jax.record import Curve, Row


class Evaluated(NamedTuple):
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]


def evaluated(models, documents, config, tokenizer=BYTES, known=(), **options):
    cuts = cuts_of(documents, config, tokenizer)

    def order(one):
        columns = (config.ways, one.row.way), (config.lengths, one.row.length)
        places = [values.index(value) for values, value in columns]
        return *places, config.metrics.index(one.row.metric), one.row.replica

    known = {key_of(one.row): one for one in known}
    passes = evaluate(models, cuts, config, known=known, **options)
    scored = sorted((one for part in passes for one in part), key=order)
    curves = longest(one.curve for one in scored if one.curve)
    return Evaluated(tuple(one.row for one in scored), curves)


def stacked(graphdef, params, *fields, seeds):
    """Models from a tree whose leaves have a leading axis of `seeds`."""
    each = {s: jax.tree.map(lambda a, row=row: a[row], params) for row, s in enumerate(seeds)}
    return Models(graphdef, each, *fields)


def ends(cut):
    """(the first scored row of each window, the one after its last)."""
    return cut.scored.argmax(axis=1), cut.length - cut.scored[:, ::-1].argmax(axis=1)
