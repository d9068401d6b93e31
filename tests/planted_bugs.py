"""Plants bugs, one at a time, and says which the tests catch. Run by hand, not by CI:

    python tests/planted_bugs.py            every bug
    python tests/planted_bugs.py 3 7-12     these numbers alone, to go on where a run was cut off

Each bug is a slip that a person may make: it is planted in a temporary copy of the tree, and the
default tests named beside it run there until the first one fails. The tests must pass without it.
A bug whose text is not in its file exactly once was moved by a later change, and counts as not
caught until its entry here follows. The exit code is 1 where fewer than 95 % are caught.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WANTED = 0.95
SECONDS = 900
"""How long the tests of one bug may take."""


class Bug(NamedTuple):
    """A text of a file of pe_jax, what stands in its place, and the tests that should see it."""

    file: str
    before: str
    after: str
    tests: tuple[str, ...]


ATTENTION = "tests/attention/test_attention.py"
DECODE = "tests/model/test_decode.py"
FORMS = "tests/model/test_forms.py"
MEMORY = "tests/model/test_memory.py"
PROTOCOL = "tests/evaluation/test_protocol.py"
BASELINES = "tests/evaluation/test_baselines.py"
NO_STEPS = "tests/runs/test_no_steps.py"
TASK_RUNS = "tests/runs/test_task_runs.py"
STATISTICS = (
    "tests/report/test_stats.py",
    "tests/report/test_verdicts.py",
    "tests/report/test_compare.py",
    "tests/report/test_rows_without_model.py",
)
TRAIN = "tests/training/test_train.py"
SAMPLES = "tests/training/test_samples.py"
FAMILIES = "tests/pretrained/test_families.py"
CHOMSKY = "tests/tasks/test_chomsky.py"
RETRIEVAL = "tests/tasks/test_retrieval.py"

BUGS = {
    "attention": (
        Bug(  # the last query of a block sits on the first key of a tile
            "attention/blockwise.py",
            "seen &= first <= q_last",
            "seen &= first < q_last",
            (
                f"{ATTENTION}::test_queries_in_the_middle_of_the_keys",
                f"{ATTENTION}::test_blocks_that_a_window_leaves_out_change_nothing",
                f"{ATTENTION}::test_blocks_that_the_mask_empties_are_skipped",
                f"{DECODE}::test_several_tokens_at_once_by_blocks_and_in_a_cache_that_grows",
            ),
        ),
        Bug(  # a column of padding, where the last block has fewer queries
            "attention/relative.py",
            "at = self.queries - 1",
            "at = 0",
            (
                f"{ATTENTION}::test_blockwise_is_dense_and_neither_sees_the_future[deberta(clip=3)-memory]",
                f"{ATTENTION}::test_blocks_beyond_where_hooks_are_constant_are_met_by_one_column",
            ),
        ),
        Bug(  # with keys of a cache before the queries, quarters of the queries are not of the keys
            "attention/blockwise.py",
            "in_quarters = pe.causal and T == S and count >= 8",
            "in_quarters = pe.causal and count >= 8",
            (
                f"{ATTENTION}::test_whole_rows_end_where_a_quarter_of_the_queries_does",
                f"{DECODE}::test_several_tokens_at_once_by_blocks_and_in_a_cache_that_grows",
            ),
        ),
        Bug(  # neighbouring heads share a key head, not every second one
            "model/lm.py",
            "jnp.repeat(a, H // kv_heads, axis=2)",
            "jnp.tile(a, (1, 1, H // kv_heads, 1))",
            (FORMS, FAMILIES),
        ),
        Bug(  # a bidirectional window without a right end
            "attention/rows.py",
            "(jnp.abs(i - j) < window)",
            "(i - j < window)",
            (
                f"{ATTENTION}::test_attention_is_what_loops_compute",
                f"{ATTENTION}::test_blocks_that_a_window_leaves_out_change_nothing",
                "tests/encodings/test_identities.py",
            ),
        ),
        Bug(  # an audit: constant from where the first of several hooks is
            "attention/bound.py",
            "return max(ends) if ends and",
            "return min(ends) if ends and",
            (
                f"{ATTENTION}::test_blocks_between_the_reaches_of_two_tables_are_not_taken_for_constant",
                f"{ATTENTION}::test_blocks_beyond_where_hooks_are_constant_are_met_by_one_column",
            ),
        ),
    ),
    "evaluation": (
        Bug(  # the last, smaller batch is dropped
            "evaluation/scoring.py",
            "for i in range(0, samples, batch)",
            "for i in range(0, samples - batch + 1, batch)",
            (TASK_RUNS, BASELINES),
        ),
        Bug(  # the bytes of the inputs
            "evaluation/windows.py",
            "targets = tokens[:, 1:]",
            "targets = tokens[:, :-1]",
            (PROTOCOL,),
        ),
        Bug(  # windows begin as documents do, not as texts that the model knows
            "evaluation/windows.py",
            "tokens[:, 0] = tokenizer.bos",
            "tokens[:1, 0] = tokenizer.bos",
            ("tests/data/test_bos.py",),
        ),
        Bug(  # random positions drawn by the key of the sample
            "evaluation/scoring.py",
            "(keys[:, 0]), keys[:, 1]",
            "(keys[:, 0]), keys[:, 0]",
            (BASELINES,),
        ),
        Bug(  # an answer is scored a token late
            "evaluation/windows.py",
            "len(before) + prompt.answer - 1] =",
            "len(before) + prompt.answer] =",
            (NO_STEPS, "tests/evaluation/test_reference.py"),
        ),
        Bug(  # the last window scores beyond the targets
            "metrics/__init__.py", "min(E, end - start)", "E", (PROTOCOL,)
        ),
        Bug(  # every sample counts alike, however many of its tokens are scored
            "metrics/__init__.py",
            "float(predictions.right[predictions.scored].mean())",
            "float((predictions.right.sum(1) / predictions.scored.sum(1)).mean())",
            (PROTOCOL, BASELINES),
        ),
        Bug(  # an audit: all segments of a window draw the same positions
            "evaluation/scoring.py",
            "own = jax.vmap(jax.random.fold_in, (0, None))(keys, number)",
            "own = keys",
            (
                PROTOCOL,
                f"{MEMORY}::test_windows_by_segments_with_a_long_memory_score_as_whole_ones",
            ),
        ),
        Bug(  # an audit: counted in the samples that it is scored on
            "evaluation/baselines.py",
            "other_scored = (np.asarray(part[samples:]) for part in drawn)",
            "other_scored = (np.asarray(part[:samples]) for part in drawn)",
            (BASELINES,),
        ),
        Bug(  # an audit: a token early
            "metrics/__init__.py",
            "yield Place(document, e - E, E - 1 - k, E - 1)",
            "yield Place(document, e - E, E - 2 - k, E - 2)",
            (PROTOCOL,),
        ),
        Bug(  # an audit: every batch has the positions of the first
            "evaluation/windows.py", "axis=0)]), first", "axis=0)]), 0", (PROTOCOL,)
        ),
    ),
    "statistics": (
        Bug(  # what was not tested counts as a comparison
            "report/stats.py",
            "np.arange(len(order), 0, -1)",
            "np.arange(len(values), len(values) - len(order), -1)",
            STATISTICS,
        ),
        Bug(  # half of the seeds is not more than half
            "report/table.py",
            "in cells[n].values.values()) > cells[n].replicas",
            "in cells[n].values.values()) >= cells[n].replicas",
            ("tests/report/test_solved.py",),
        ),
        Bug(  # records from before a field was there are ranked apart
            "report/groups.py",
            "value or None for name, value in lm.items()",
            "value for name, value in lm.items()",
            ("tests/report/test_groups.py",),
        ),
        Bug(
            "report/stats.py",
            "= special.stdtrit(n - 1, 0.975)",
            "= special.stdtrit(n - 1, 0.95)",
            STATISTICS,
        ),
        Bug(  # the family of the pairs with the best alone
            "report/stats.py",
            "adjusted[b, a] = holm(p)",
            "adjusted[b, a] = [min(1, one * (len(samples) - 1)) for one in p]",
            STATISTICS,
        ),
    ),
    "training": (
        Bug(  # padding, and what nobody can know, is scored
            "training/step.py", "nats.mean(where=scored)", "nats.mean()", (SAMPLES, TRAIN)
        ),
        Bug(  # the last step that is not finite, not the first
            "training/step.py",
            'jnp.where((old["diverged"] < 0) & ~finite, step',
            "jnp.where(~finite, step",
            (TRAIN,),
        ),
        Bug(  # a piece loses its last window
            "data/batches.py",
            "places, size + 1)",
            "places, size)",
            ("tests/data/test_data.py", MEMORY),
        ),
        Bug(  # the first length of a part counts for the part before
            "training/samples.py", 'side="right"', 'side="left"', (SAMPLES,)
        ),
        Bug(  # padding is predicted, too
            "training/samples.py",
            "jnp.arange(len(tokens)) < size - 1",
            "jnp.arange(len(tokens)) < size",
            (SAMPLES,),
        ),
        Bug(  # encodings are not told of the memory
            "training/step.py",
            "tokens = inputs.shape[1] + model.config.memory",
            "tokens = inputs.shape[1]",
            (TRAIN, MEMORY),
        ),
        Bug(  # the rate of the step to come
            "training/loop.py", "_rates(config)(step - 1)", "_rates(config)(step)", (TRAIN,)
        ),
        Bug(  # an audit: clipped after AdamW
            "training/config.py",
            "            optax.clip_by_global_norm(self.clip),\n"
            "            optax.adamw(\n"
            "                self.rates_by_step(), self.beta1, self.beta2, "
            "weight_decay=self.decay, mask=decayed\n"
            "            ),\n",
            "            optax.adamw(\n"
            "                self.rates_by_step(), self.beta1, self.beta2, "
            "weight_decay=self.decay, mask=decayed\n"
            "            ),\n"
            "            optax.clip_by_global_norm(self.clip),\n",
            (TRAIN,),
        ),
    ),
    "pretrained": (
        Bug(  # the epsilon of a model's norms is ignored
            "model/config.py", "eps = self.norm_eps or 1e-6", "eps = 1e-6", (FAMILIES, FORMS)
        ),
        Bug(  # the exact function in place of its approximation
            "pretrained/config.py", '"gelu_fast": "gelu"', '"gelu_fast": "gelu_erf"', (FAMILIES,)
        ),
        Bug(  # keys have fewer heads
            "storage/gguf_file.py",
            'which = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"',
            'which = "num_attention_heads"',
            (FAMILIES,),
        ),
        Bug(  # the two ends of YaRN's ramp swapped
            "pretrained/config.py",
            '"beta_fast": "beta",\n    "beta_slow": "alpha",',
            '"beta_fast": "alpha",\n    "beta_slow": "beta",',
            (FAMILIES,),
        ),
        Bug(  # the dtype of activations is ignored
            "pretrained/load.py",
            "config = dataclasses.replace(about.lm, dtype=activations)",
            "config = about.lm",
            (FAMILIES, NO_STEPS),
        ),
        Bug(  # an audit: all queries first, then all keys, then all values
            "pretrained/load.py",
            "array.reshape(heads, 3, -1, *array.shape[1:])",
            "array.reshape(3, heads, -1, *array.shape[1:]).swapaxes(0, 1)",
            (FAMILIES,),
        ),
    ),
    "tasks": (
        Bug(  # the last data token is never drawn
            "tasks/selective_copy.py",
            "(self.data,), 0, self.labels())",
            "(self.data,), 0, self.labels() - 1)",
            (RETRIEVAL, "tests/tasks/test_tasks.py"),
        ),
        Bug(  # one action at least
            "tasks/stack_manipulation.py",
            "jnp.maximum(n, 2))",
            "jnp.maximum(n - 1, 2))",
            (CHOMSKY,),
        ),
        Bug(  # a value can be told from its key
            "tasks/mqar.py",
            "self._distinct(for_values, self.labels())",
            "self._distinct(for_keys, self.labels())",
            (RETRIEVAL,),
        ),
        Bug(  # the chain runs forwards, so that its matrix is the reversed one
            "tasks/markov.py",
            "stationary[None] * matrix.T",
            "stationary[:, None] * matrix",
            ("tests/tasks/test_markov.py",),
        ),
        Bug(  # what came before the symbol is counted, not what came behind it
            "tasks/markov.py",
            "tokens[at[:-1] + 1]",
            "tokens[at[1:] - 1]",
            ("tests/tasks/test_markov.py",),
        ),
        Bug(  # x is always the first digit
            "tasks/solve_equation.py",
            "way = (place - jax.random.randint(for_x, (), 0, size)) % size",
            "way = place % size",
            (CHOMSKY,),
        ),
        Bug(  # the second part of an expression is never a digit
            "tasks/expression.py",
            "jnp.maximum(size - 4, 1)",
            "jnp.maximum(size - 5, 1)",
            (CHOMSKY,),
        ),
        Bug(  # an audit: a passkey is never at the end
            "tasks/passkey.py", "(), 0, n + 1)", "(), 0, n)", (RETRIEVAL,)
        ),
        Bug(  # an audit: fewer reads
            "tasks/flip_flop.py",
            "bernoulli(for_reads, 0.5,",
            "bernoulli(for_reads, 0.4,",
            (RETRIEVAL,),
        ),
        Bug(  # layers sorted by name: 10 before 2
            "storage/checkpoints.py",
            "[arrays[name] for name in wanted]",
            "[arrays[name] for name in sorted(wanted)]",
            ("tests/storage/test_checkpoint.py",),
        ),
        Bug(  # only the lengths that are left to score have baselines
            "runs/scores.py",
            "scores.add(shared, itertools.chain(*of_task))",
            "scores.add(shared, [])",
            (TASK_RUNS,),
        ),
    ),
}


def tried(bug: Bug, tree: Path) -> str:
    """ "caught", "survived", or why it is not known, with the bug planted in a copy of the tree."""
    file = tree / "pe_jax" / bug.file
    text = file.read_text("utf-8")
    if (count := text.count(bug.before)) != 1:
        return f"moved: its text occurs {count} times"
    file.write_text(text.replace(bug.before, bug.after), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *bug.tests]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} s"
    finally:
        file.write_text(text, "utf-8")
    known = {0: "survived", 1: "caught"}
    return known.get(done.returncode) or f"no tests ran: {done.stdout[-300:]}{done.stderr[-300:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("numbers", nargs="*", help="of bugs, as in 3 7-12; none: all")
    chosen = set()
    for text in parser.parse_args().numbers:
        first, _, last = text.partition("-")
        chosen |= {*range(int(first), int(last or first) + 1)}
    every = [(area, bug) for area, bugs in BUGS.items() for bug in bugs]
    numbered = [(n, *one) for n, one in enumerate(every, 1) if not chosen or n in chosen]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        left_out = shutil.ignore_patterns(".git", ".venv*", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=left_out, symlinks=True)
        for number, area, bug in numbered:
            began = time.monotonic()
            found.append(tried(bug, tree))
            seconds = time.monotonic() - began
            change = bug.after.strip().splitlines()[0]
            print(f"{number:3} {area:11} {bug.file:29} {seconds:4.0f} s  {found[-1]:9} {change}")
            sys.stdout.flush()
    share = found.count("caught") / len(found)
    print(f"{found.count('caught')} of {len(found)} caught: {share:.0%}")
    return share < WANTED


if __name__ == "__main__":
    sys.exit(main())
