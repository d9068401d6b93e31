"""The scores of an evaluation, in the order of a record."""

from typing import NamedTuple

from pe_jax.data.tokenizer import BYTES
from pe_jax.evaluation.evaluate import cuts_of, evaluate, longest
from pe_jax.record import Curve, Row


class Evaluated(NamedTuple):
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]


def evaluated(models, documents, config, tokenizer=BYTES, **options):
    cuts = cuts_of(documents, config, tokenizer)

    def order(one):
        columns = (config.ways, one.row.way), (config.lengths, one.row.length)
        places = [values.index(value) for values, value in columns]
        return *places, config.metrics.index(one.row.metric), one.row.replica

    passes = evaluate(models, cuts, config, **options)
    scored = sorted((one for part in passes for one in part), key=order)
    curves = longest(one.curve for one in scored if one.curve)
    return Evaluated(tuple(one.row for one in scored), curves)
