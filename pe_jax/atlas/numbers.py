"""All that is drawn of one subject, computed."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from pe_jax.atlas import by_distance, probe
from pe_jax.atlas.by_distance import Means
from pe_jax.atlas.facts import Facts, facts
from pe_jax.atlas.probe import Probed
from pe_jax.atlas.subject import Subject
from pe_jax.encoding import overrides

DRAWS = 3
"""Draws of random positions that are shown."""


@dataclasses.dataclass(frozen=True, eq=False)
class Numbers:
    """Facts and numbers of a subject, for sequences of subject.served tokens."""

    subject: Subject
    facts: Facts
    same: Probed
    """Of constant content."""
    random: Probed | None
    """Of random content, where the logits of a pair depend on other tokens, too, or where constant
    content shows nothing.
    """
    noised: bool
    """Whether the parameters of what is shown have noise added, since at their initial values they
    change nothing.
    """
    classes: Int[np.ndarray, "N"] | None
    """See by_distance.classes. This and the fields below are None where nothing is to be shown."""
    angles: tuple[Float[np.ndarray, "P"], Float[np.ndarray, "P"]] | None
    """See by_distance.rotations, at the training length and at the longest that is shown."""
    vectors: Float[np.ndarray, "T D"] | None
    """See probe.vectors."""
    moved: tuple[Float[np.ndarray, "_"], ...] | None
    """The positions of a sequence in training, one array a draw, and last in evaluation."""

    @classmethod
    def of(cls, subject: Subject) -> Numbers:
        """Computes the facts and numbers of a subject."""
        n = subject.served
        same, drawn, other = probe.contents(subject, n)
        shown, random = probe.probe(subject, n, (same, drawn), subject.params)
        noisy = dataclasses.replace(subject, params=subject.noisy())
        of_pairs = probe.probe(subject, n, (drawn, other), noisy.params)
        properties = facts(subject, shown, of_pairs)
        noised = any(subject.params) and not (shown.acts or random.acts)
        if noised:
            subject = noisy
            shown, random = probe.probe(subject, n, (same, drawn), noisy.params)
        second = properties.content == "others" or (random.acts and not shown.acts)
        return cls(
            subject,
            properties,
            shown,
            random if second else None,
            noised,
            by_distance.classes(subject, n),
            _angles(subject),
            probe.vectors(subject, n),
            _moved(subject),
        )

    @property
    def means(self) -> Means:
        """What constant content has added to its logits, against the distance."""
        return by_distance.means(self.same.effect)

    @property
    def heads(self) -> list[int]:
        """The heads that are drawn: at most four, from the first to the last."""
        return spread(self.subject.dims.heads, 4)


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 .. count - 1, evenly from the first to the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


def _angles(subject: Subject) -> tuple[np.ndarray, np.ndarray] | None:
    near, far = (by_distance.rotations(subject, n) for n in (subject.length, subject.asked))
    return None if near is None or far is None or len(near) != len(far) else (near, far)


def _moved(subject: Subject) -> tuple[np.ndarray, ...] | None:
    if not any(overrides(e, "positions") for e in subject.encodings):
        return None
    drawn = (probe.positions(subject, subject.length, seed, train=True) for seed in range(DRAWS))
    return *(np.asarray(pos, float) for pos in drawn), np.asarray(
        probe.positions(subject, subject.served), float
    )
