"""In-context Markov chains (Edelman et al., 2024, arXiv:2402.11004): only the context tells how
the chain of a sample goes on, and more of it always tells more.

Each sample draws a transition matrix P of its own over k symbols, with rows from Dirichlet(1, ...,
1), and n + 1 tokens x_0 .. x_n of the stationary chain of P. The n tokens x_0 .. x_(n-1) are read,
and at each the next one is predicted; training scores all of them.

With n_ij transitions from i to j so far, n_i in all, the best prediction after a token i gives j

    p(j) = (n_ij + 1) / (n_i + k)

the posterior mean of P_ij. With k = 2, in `0 1 1 0` the next token is predicted with p(0) = 1/2,
1/2, 1/3, 1/3. The formula leaves out what the first token, a draw from the stationary distribution
of P, says about P: with k = 8 that costs 0.0003 bits a token at n = 64 and 0.00005 at n = 256.

The chain is drawn backwards from its last token x_n, by the reversed chain, whose probability of a
step from j back to i is pi_i P_ij / pi_j, pi being the stationary distribution. So the sample of
length n is exactly the last n tokens of every longer one with its key: at all evaluation lengths
the targets at the end are the same, and only the context before them grows. What the metrics
`last_bits` and `above_bayes` score is the last `eval.last` of them.

Bits per token of the last 32 targets by the best prediction, with k = 8 (4,096 samples, whose mean
has a standard error of 0.003):

    n       64    128    256    512  1,024  2,048  4,096
    bits  2.79   2.69   2.60   2.55   2.51   2.50   2.49

With masked=True a token of the chain is hidden, read as the id k, and predicted from both sides. In
training each sample draws p from U(0, 2 rate) and marks each token with probability p; of adjacent
marked tokens the first alone is hidden, at least one in all, and never the first or the last. In
evaluation the middle token alone is, and scored. With n_ij the transitions whose ends are visible,
n_i their sums and d the indicator of equal symbols, between i and l the best prediction gives j

    p(j) ~ (n_ij + 1) / (n_i + k)  (n_jl + 1) / (n_j + k)                       j other than i
    p(i) ~ (n_ii + 1) (n_il + 1 + d_il) / ((n_i + k) (n_i + k + 1))

the posterior mean of P_ij P_jl, again without what the stationary start says. With k = 3, in
`0 1 1 ? 1` p is in proportion to 1/8, 3/10 and 1/12. The chain is drawn from its hidden token on,
to the right by P and to the left by the reversed chain. The sample of length n is in the middle of
every longer one with its key, so the hidden token is the same at every length, and the context
grows on both sides. Bits of the hidden token by the best prediction, with k = 8:

    n       64    128    256    512  1,024  2,048  4,096
    bits  2.56   2.41   2.28   2.21   2.13   2.09   2.07
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.fields import Count, Fraction
from pe_jax.task import Sample, Task


@dataclasses.dataclass(frozen=True)
class Markov(Task):
    """The next token of a chain whose transition probabilities are drawn for each sample, or with
    `masked` a hidden one.
    """

    symbols: Count = 8
    """Symbols of the chain, k."""
    masked: bool = False
    """Whether tokens are hidden and predicted from both sides."""
    rate: Fraction = 0.2
    """The mean of p in training (0.2 hides 15 %; 0.375 most, 19 %); 0: one, as in evaluation."""

    nested: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("last_bits", "above_bayes")

    def masks(self):
        return self.masked

    def scored_form(self):
        return dataclasses.replace(self, rate=0.0) if self.masked else self

    def vocab(self):
        return self.symbols + self.masked

    def labels(self):
        return self.symbols

    def has(self, n):
        return n >= (3 if self.masked else 1)

    def _matrix(self, key):
        # The transition probabilities P of a sample, [k, k].
        return jax.random.dirichlet(key, jnp.ones(self.symbols), (self.symbols,))

    def sample(self, key, n, longest):
        for_matrix, for_steps = jax.random.split(key)
        k = self.symbols
        matrix = self._matrix(for_matrix)
        # pi = pi P and sum(pi) = 1, added up.
        stationary = jnp.linalg.solve(jnp.eye(k) - matrix.T + 1, jnp.ones(k))
        flows = jnp.cumsum(stationary[None] * matrix.T, axis=1)  # [j, i]: pi_i P_ij up to i
        steps = jnp.concatenate([flows, jnp.cumsum(stationary)[None]])  # row k: the last token

        def walked(steps, token, shares):
            def step(token, share):
                below = steps[token] <= share * steps[token, -1]
                token = jnp.minimum(below.sum(), k - 1)
                return token, token

            return jax.lax.scan(step, token, shares)[1]

        shares = jax.random.uniform(for_steps, (longest + 1,))
        backwards = walked(steps, jnp.int32(k), shares)
        place = jnp.arange(longest)
        if self.masked:  # around the last token of the chain that goes backwards
            for_right, for_hidden = jax.random.split(jax.random.fold_in(key, 1))
            shares = jax.random.uniform(for_right, (longest,))
            onwards = walked(jnp.cumsum(matrix, axis=1), backwards[0], shares)
            at = place - n // 2
            behind, ahead = backwards[jnp.maximum(-at, 0)], onwards[jnp.maximum(at - 1, 0)]
            targets = jnp.where(at > 0, ahead, behind)
            hidden = self._hidden(for_hidden, n, place) if self.rate else at == 0
            return Sample(jnp.where(hidden, k, targets), targets, hidden)
        tokens = backwards[jnp.maximum(n - place, 0)]
        targets = backwards[jnp.maximum(n - 1 - place, 0)]
        return Sample(tokens, targets, place < n)

    def _hidden(self, key, n, place):
        # The tokens that are hidden in training.
        for_rate, for_each, for_one = jax.random.split(key, 3)
        drawn = jax.random.uniform(for_each, place.shape)
        drawn = drawn < jax.random.uniform(for_rate) * 2 * self.rate
        hidden = drawn & ~jnp.roll(drawn, 1) & (place > 0) & (place < n - 1)
        one = jax.random.randint(for_one, (), 1, n - 1)
        return jnp.where(jnp.abs(place - one) <= 1, place == one, hidden)

    def bayes(self, tokens):
        tokens, k = np.asarray(tokens), self.symbols
        if self.masked:
            return self._between(tokens)
        best = np.empty((len(tokens), k))
        for symbol in range(k):
            at = np.flatnonzero(tokens == symbol)
            following = np.eye(k)[tokens[at[:-1] + 1]]  # the last one's is the target
            seen = np.concatenate([np.zeros((1, k)), np.cumsum(following, axis=0)])[: len(at)]
            best[at] = (seen + 1) / (np.arange(len(at))[:, None] + k)
        return best

    # The prediction of hidden tokens. With several of them it leaves out what transitions to and
    # from the others say about P.
    def _between(self, tokens):
        k = self.symbols
        pairs = np.stack([tokens[:-1], tokens[1:]])
        n = np.ones((k, k))
        np.add.at(n, tuple(pairs[:, (pairs < k).all(axis=0)]), 1)
        sums, best = n.sum(axis=1), np.zeros((len(tokens), k + 1))
        for at in np.flatnonzero(tokens == k):
            i, last = tokens[at - 1], tokens[at + 1]
            p = n[i] / sums[i] * n[:, last] / sums
            p[i] = n[i, i] * (n[i, last] + (i == last)) / (sums[i] * (sums[i] + 1))
            best[at, :k] = p / p.sum()
        return best
