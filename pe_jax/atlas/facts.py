"""The properties of the encodings of a subject. All are computed: by the facts of their classes,
and by probes of attention (probe.py, kinds.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from pe_jax.atlas import by_distance, probe
from pe_jax.atlas.ideals import ideals
from pe_jax.atlas.kinds import group, kind, moves_positions
from pe_jax.atlas.probe import SMALL, Probed
from pe_jax.atlas.subject import Subject
from pe_jax.encoding import overrides, sites
from pe_jax.model.parameters import learned

GROUPS = {
    "input": "Added to the input",
    "rotation": "Rotations of queries and keys",
    "bias": "Biases of the distance",
    "content": "Together with content",
    "positions": "Change the positions that others read",
    "scale": "Temperatures",
    "mask": "Windows",
    "none": "None",
}
"""The titles of the groups, in the order of the page."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """The properties of a subject. COLUMNS has their names in tables."""

    name: str
    group: str
    """A key of GROUPS."""
    family: str
    """The families of its members."""
    sites: str
    """The hooks that its members override."""
    parameters: int
    """Learned numbers of the whole model."""
    reads: str
    """See kinds.Kind."""
    distance_alone: bool | None
    """Whether outputs stay the same when all positions are shifted equally."""
    distinct: bool | None
    """See ideals.Ideals."""
    same_at_any_length: bool | None
    bounded: bool | None
    content: str
    """What the term added to the logit of a query and a key depends on, besides positions: "no"
    content; that of the "pair" alone; that of "others", too.
    """
    decays: str
    """In how many heads the logit falls with the distance, and nowhere rises, up to four training
    lengths: all, none, or k of H.
    """
    window: str
    """The effective window of the last query, in keys: the lowest and the highest of the heads."""
    hides: str
    """The window beyond which keys are hidden, and the first keys that never are."""
    limit: int | None
    """How many positions are served."""
    constant_from: int | None
    """The distance from which no relative hook changes any more."""
    trained_from: int | None
    """The shortest training length that reaches every parameter."""
    random: str
    """When positions are drawn at random: never, in training, always."""
    adapts: bool
    """Whether its members change with the evaluated length."""
    causal_only: bool
    """Whether a model that is not causal is refused."""


def facts(subject: Subject, same: Probed, of_pairs: Sequence[Probed]) -> Facts:
    """The facts, from what was probed of constant content with the parameters that are shown, and
    of the two random contents with noisy ones.
    """
    encodings = subject.encodings
    probed, limits = kind(subject.name), [e.limit() for e in encodings]
    hidden = [reach for e in encodings if (reach := e.reach())]
    windows = by_distance.window(same.weights)[:, -1]
    low, high = int(windows.min()), int(windows.max())
    asked = ideals(subject)
    return Facts(
        name=subject.name,
        group="positions" if moves_positions(encodings) else group(encodings),
        family=", ".join(dict.fromkeys(e.family for e in encodings if e.family)),
        sites=", ".join(dict.fromkeys(site for e in encodings for site in sites(e))),
        parameters=sum(map(learned, encodings)),
        reads=probed.reads,
        distance_alone=probed.shift_invariant,
        distinct=asked.distinct,
        same_at_any_length=asked.same_at_any_length,
        bounded=asked.bounded,
        content=_content(of_pairs),
        decays=_decays(same),
        window=str(low) if low == high else f"{low} to {high}",
        hides=", ".join(f"{size}" + f" + {sinks}" * (sinks > 0) for size, sinks in hidden),
        limit=min((n for n in limits if n is not None), default=None),
        constant_from=_highest(e.constant_from() for e in encodings),
        trained_from=_highest(e.trained_from() for e in encodings),
        random=_random(subject),
        adapts=any(e.at(subject.length) != e.at(subject.asked) for e in encodings),
        causal_only=_causal_only(subject),
    )


def _content(of_pairs: Sequence[Probed]) -> str:
    one, other = (np.where(np.isfinite(p.added), p.added, 0.0) for p in of_pairs)
    differ = np.abs(one - other) > SMALL * max(1.0, float(np.abs(one).max()))
    changed = probe.changed(one.shape[-1])
    if np.delete(np.delete(differ, changed, axis=1), changed, axis=2).any():
        return "others"
    return "pair" if differ.any() else "no"


def _decays(same: Probed) -> str:
    falling = by_distance.decaying(by_distance.means(same.effect).mean)
    count = int(falling.sum())
    return {0: "none", len(falling): "all"}.get(count, f"{count} of {len(falling)}")


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _random(subject: Subject) -> str:
    if not any(overrides(e, "positions") for e in subject.encodings):
        return "never"

    def drawn(train: bool) -> bool:
        first, second = (probe.positions(subject, 16, seed, train) for seed in (0, 1))
        return not np.array_equal(first, second)

    return "always" if drawn(False) else "in training" if drawn(True) else "never"


def _causal_only(subject: Subject) -> bool:
    dims = subject.dims._replace(causal=False)
    try:
        for encoding in subject.encodings:
            dataclasses.replace(encoding, dims=dims)
    except ValueError:
        return True
    return False


COLUMNS: dict[str, str] = {
    "name": "encoding",
    "family": "family",
    "reads": "reads",
    "distance_alone": "distance alone",
    "distinct": "own value",
    "same_at_any_length": "same at any length",
    "bounded": "bounded",
    "content": "content",
    "decays": "decays",
    "window": "effective window",
    "hides": "hides beyond",
    "parameters": "learned",
    "limit": "limit",
    "constant_from": "constant from",
    "trained_from": "trained from",
    "random": "random",
    "adapts": "adapts to length",
    "causal_only": "causal only",
    "sites": "hooks",
}
"""The columns of the table, by the fields of Facts."""


def texts(one: Facts) -> list[str]:
    """The cells of a row, in the order of COLUMNS."""
    return [_text(getattr(one, field)) for field in COLUMNS]


def _text(value: object) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def by_group(every: Sequence[Facts]) -> dict[str, list[Facts]]:
    """{title of a group: its members}, in the order of GROUPS; groups without members left out."""
    found = {title: [one for one in every if one.group == g] for g, title in GROUPS.items()}
    return {title: members for title, members in found.items() if members}
