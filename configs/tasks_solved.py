"""How far do models generalise that have solved a task at the training length L? Copying a string
of different symbols (L = 20) and adding reversed numbers (L = 10 digits).

    pe-jax sweep --config=configs/tasks_solved.py --workdir=runs/tasks_solved_rates \
    --out=results/tasks_solved/rates

Three rates on seed 0, of 4,000 steps. Then five seeds at the rate that is best by validation, with
8,000 STEPS of copying and 12,000 of addition, since after 4,000 the models were still learning: at
their best rates nope copied 97 % of the strings of length L, and position_coupling and abacus added
68 % and 75 % of the numbers.

    pe-jax run --config='configs/tasks_solved.py:task=TASK,pe=ENC' --config.train.rates='()' \
    --config.train.rate=RATE --config.train.steps=STEPS --config.run.seeds='(0,1,2,3,4)' \
    --workdir=runs/tasks_solved --config.eval.lengths='(L,)'

Where fewer than four seeds have solved L, all five are trained on by the same command with
--config.train.init_from=RUN, the folder of the run before, by 12,000 steps of addition or 8,000 of
copying at a third of RATE, at most twice; the samples are those of the run before. (At RATE itself
position_coupling went from 0.01 bits of validation samples to 1.6 in 900 steps.)
After 12,000 steps two seeds of position_coupling and none of abacus had solved L, by 91 to 100 %
(results/unfinished/tasks_solved). No score beyond L was read before this was decided, but that of
position_coupling after these 12,000 steps, by mistake: 76 % of the digits at 1.5 L. The last run
of each model is then copied to runs/tasks_solved_last, and its line is repeated there with all
lengths:

    pe-jax report --workdir=runs/tasks_solved_last --out=results/tasks_solved
    python -m experiments.studies.verdicts tasks_solved

Cho et al. have one layer, and McLeish et al. layers that recur. After the longer scores of the four
layers had been seen, position_coupling was also trained with one layer, by its first line with
12,000 STEPS, all lengths, --config.lm.layers=1 and --workdir=runs/tasks_solved_one_layer, to tell
the encoding from the depth (results/tasks_solved/one_layer). The predictions are of four layers.

A seed has solved its task if it answers at least 99 % of 512 samples of length L exactly. A model
generalises to k L if at least four of its five seeds have solved it and answer at least 90 % there
and at the lengths below it that are evaluated. It is undecided, and its claim untested, if fewer
than four have solved it. Where the chosen rate is an end of the grid, the grid is widened for that
model before any score beyond L is read.

Predictions, stated before the first run, from published results:

1. position_coupling+learned generalises to 6 L (Cho et al., 2024, arXiv:2405.20671: from 30 to 200
   digits).
2. abacus+learned generalises to 5 L (McLeish et al., 2024, arXiv:2405.17399: from 20 to 100).
3. Without coupled positions no encoding generalises to 1.5 L of addition in the same format (Zhou
   et al., 2024, arXiv:2402.09371: without index hints all fail).
4. nope generalises to 1.5 L of copying (Zhou et al., 2023, arXiv:2310.16028; Kazemnejad et al.,
   2023, arXiv:2305.19466: 72 % at 1.2 L of strings with repeated symbols, 17 % at 1.5 L).
5. rope does not generalise to 1.1 L of either task (Kazemnejad et al.: 4 % at 1.05 L).

A prediction fails with the first of its models against it, and is undecided where none is and one
of them is undecided.

4 layers of width 64 and batches of 64 samples. The plan was a width of 128, 8,000 steps of 128
samples, three rates on five seeds, and alibi and randomized+rope besides: 90 hours of a core. The
rule counts seeds that have solved the task, so a smaller model can leave claims undecided, and not
decide them otherwise. On a GPU: --config.lm.model=128 --config.train.batch=128.
"""

from pe_jax.configs import base

COPY = "experiments/studies/unique_copy.py:UniqueCopy"
PLAIN = ("nope", "rope")
# Positions stay below 71 and 64; as many rows as tokens, since a table shorter than the sample, 183
# tokens at 6 L, is not evaluated.
COUPLED = "position_coupling(max_position=70)+learned(length=256)"
ABACUS = "abacus(max_shift=50)+learned(length=256)"


def get_config(arg=f"task={COPY},pe=nope"):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads = 4, 64, 4
    c.train.length = n = 10 if c.task.name == "addition" else 20
    c.train.batch, c.train.steps, c.train.warmup = 64, 4000, 200
    c.train.rates, c.run.seeds = (1e-3, 3e-3, 9e-3), (0,)
    times = (1, 1.1, 1.5, 2, 3, *((5, 6) if c.task.name == "addition" else ()))
    c.eval.lengths, c.eval.swaps = tuple(round(n * k) for k in times), ()
    c.eval.metrics = ("exact_match", "accuracy")
    if c.task.name == "addition":
        c.task.order, c.task.padded = "reversed_answer", True
        if "abacus" in c.pe:
            c.task.order, c.task.padded = "reversed", False
    return c


def get_sweep():
    for spec in PLAIN:
        yield get_config(f"task={COPY},pe={spec}")
    for spec in (COUPLED, ABACUS, *PLAIN):
        yield get_config(f"task=addition,pe={spec}")
