"""Every knob of a run. `--config=base.py:pe=SPEC` chooses the encodings; README.md,
"Encodings", has the specs.

    pe-jax run --config=base.py:pe=randomized+rope --config.train.steps=200
    --workdir=DIR
"""

from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder


def get_config(arg="pe=rope") -> Any:
    """A run of the encodings that `arg` names."""
    c: Any = ConfigDict()
    c.pe = encodings(spec_of(arg))  # the spec, and a section of fields for each member

    c.lm = lm = ConfigDict()
    lm.vocab = 256  # logits; raised to the tokenizer's number of tokens
    lm.layers = 2
    lm.model = 64  # D, the size of the residual stream
    lm.heads = 4
    lm.mlp = placeholder(int)  # hidden size; None: 4 * model
    lm.activation = "gelu"  # gelu, relu or silu
    lm.norm = "rms"  # rms or layer
    lm.dropout = 0.0
    lm.dtype = "float32"  # of activations: float32 or bfloat16
    lm.attention = "auto"  # dense, blockwise, or auto: by memory
    lm.tie_embeddings = False
    lm.causal = True
    lm.embed_std = 1.0  # of the token embeddings at the start
    lm.memory = 0  # hidden states that each layer keeps of the segments before (Transformer-XL)

    c.train = train = ConfigDict()
    train.steps = 350
    train.length = 64  # L, tokens of a training window
    train.batch = 32  # windows a step, for each seed
    train.rate = 3e-3  # the highest learning rate
    train.warmup = 50  # steps of linear warm-up, at most a tenth of all
    train.final = 0.1  # the last learning rate, as a part of the highest
    train.decay = 0.1  # weight decay, on dense kernels alone
    train.clip = 1.0  # the global norm of a gradient
    train.beta1 = 0.9
    train.beta2 = 0.98
    train.steps_per_call = 25  # steps in one jitted scan
    train.init_from = ""  # start from the parameters of this finished run, <workdir>/<run id>
    train.init_drop = False  # drop those of its parameters that have no place here

    c.eval = evaluation = ConfigDict()
    evaluation.lengths = (64, 128, 256, 512, 1024)  # the training length always joins them
    evaluation.metrics = ("same_targets", "nonoverlapping")  # and sliding, last_k
    evaluation.swaps = ("window",)  # specs swapped in on the trained checkpoint
    evaluation.memory = ()  # segment memories to evaluate with; that of training always joins them
    evaluation.targets = 16384  # scored tokens of each metric at each length
    # of sliding, and k of same_targets and last_k; None: half the training length
    evaluation.stride = placeholder(int)
    evaluation.last = placeholder(int)
    evaluation.split = "test"  # validation serves choices: valid
    evaluation.batch_tokens = 4096  # of the windows evaluated at once, at least one window

    c.data = data = ConfigDict()
    # stdlib; files:PATH, a file, a folder or globs; tfds:NAME[:SPLIT], a prepared TFDS dataset
    data.source = "stdlib"
    # where a relative PATH begins ("": the working directory), or TFDS's data_dir ("": TFDS's own)
    data.data_dir = ""
    data.tokenizer = "bytes"  # or bpe:4096, trained on the training split, or file:tokenizer.json

    c.run = run = ConfigDict()
    run.seeds = (0, 1, 2)
    # all seeds in one program; False: one after another, bit-equal to runs of one
    run.vmap_seeds = True
    run.mesh = ""  # devices: data:8, or seed:3,data:2; "": one. Changes no id

    c.log = log = ConfigDict()  # what changes no number and is not part of a run's id
    log.checkpoint_seconds = 60.0
    log.tensorboard = False  # needs pe_jax[tensorboard]; in DIR/<run id>/tensorboard
    log.wandb = False  # Weights & Biases, needs pe_jax[wandb]; WANDB_MODE=offline: no network
    return c


def spec_of(arg):
    """The spec of "pe=SPEC"."""
    name, found, spec = (arg or "pe=rope").partition("=")
    if name != "pe" or not found or not spec:
        raise ValueError(f"the argument of a config is pe=SPEC, as in base.py:pe=rope, got {arg!r}")
    return spec


def encodings(spec):
    """The section `pe`: the spec, and each member's fields at their values in it."""
    import typing

    from pe_jax.spec import defaults, parse

    section = ConfigDict({"spec": spec})
    for member in parse(spec):
        fields = ConfigDict()
        hints = typing.get_type_hints(member.cls)
        for name, value in (defaults(member.cls) | member.fields).items():
            if value is None:
                kind = next(t for t in typing.get_args(hints[name]) if t is not type(None))
                fields[name] = placeholder(kind)
            else:
                fields[name] = value
        section[member.id] = fields
    return section
