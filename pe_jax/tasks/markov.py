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
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.fields import Count
from pe_jax.task import Sample, Task


@dataclasses.dataclass(frozen=True)
class Markov(Task):
    """The next token of a chain whose transition probabilities are drawn for each sample."""

    symbols: Count = 8
    """Symbols of the chain, k."""

    nested: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("last_bits", "above_bayes")

    def vocab(self):
        return self.symbols

    def sample(self, key, n, longest):
        for_matrix, for_steps = jax.random.split(key)
        k = self.symbols
        matrix = jax.random.dirichlet(for_matrix, jnp.ones(k), (k,))
        # pi = pi P and sum(pi) = 1, added up.
        stationary = jnp.linalg.solve(jnp.eye(k) - matrix.T + 1, jnp.ones(k))
        flows = jnp.cumsum(stationary[None] * matrix.T, axis=1)  # [j, i]: pi_i P_ij up to i
        steps = jnp.concatenate([flows, jnp.cumsum(stationary)[None]])  # row k: the last token

        def back(token, share):
            below = steps[token] <= share * steps[token, -1]
            token = jnp.minimum(below.sum(), k - 1)
            return token, token

        shares = jax.random.uniform(for_steps, (longest + 1,))
        backwards = jax.lax.scan(back, jnp.int32(k), shares)[1]
        place = jnp.arange(longest)
        tokens = backwards[jnp.maximum(n - place, 0)]
        targets = backwards[jnp.maximum(n - 1 - place, 0)]
        return Sample(tokens, targets, place < n)

    def bayes(self, tokens):
        tokens, k = np.asarray(tokens), self.symbols
        best = np.empty((len(tokens), k))
        for symbol in range(k):
            at = np.flatnonzero(tokens == symbol)
            following = np.eye(k)[tokens[at[:-1] + 1]]  # the last one's is the target
            seen = np.concatenate([np.zeros((1, k)), np.cumsum(following, axis=0)])[: len(at)]
            best[at] = (seen + 1) / (np.arange(len(at))[:, None] + k)
        return best
