"""Every knob of a run, with its default. The other configs start from this one.

    pe-jax run --config=base.py:pe=randomized+rope --config.train.steps=200 --workdir=DIR

The argument pe=SPEC chooses the encodings; spec/parse.py says how a spec is written. With
task=NAME,pe=SPEC the model learns another task than language modelling, one of pe_jax/tasks/.
"""

import re
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder


def get_config(arg="pe=rope") -> Any:
    """The defaults, with the encodings and the task that `arg`, "task=NAME,pe=SPEC", names."""
    name, spec = chosen(arg)
    c = ConfigDict()
    c.pe = encodings(spec)  # the spec, and a section of fields for each member
    c.task = task(name)  # its name and fields; text: language modelling
    c.lm = model()
    c.train = training()
    c.eval = evaluation()
    c.data = text()
    c.run = run()
    c.log = log()
    c.resources = resources()
    return c


def model():
    """Section lm: the language model."""
    c = ConfigDict()
    c.vocab = 256  # logits; raised to the tokenizer's number of tokens
    c.layers = 2
    c.model = 64  # D, the size of the residual stream
    c.heads = 4
    c.head = placeholder(int)  # components of a head; None: model / heads
    c.kv_heads = placeholder(int)  # heads of keys and values, shared by queries'; None: heads
    c.mlp = placeholder(int)  # hidden size; None: 4 * model
    c.activation = "gelu"  # gelu, gelu_erf (exact), relu or silu
    c.gated = False  # a second matrix multiplies the activation: SwiGLU, with silu
    c.parallel = False  # attention and MLP of a layer read the same input
    c.biases = ""  # matrices with a bias: none, qkv or all
    c.norm = "rms"  # rms or layer
    c.norm_eps = placeholder(float)  # None: 1e-6
    c.qk_norm = False  # queries and keys are normalised before any encoding
    c.dropout = 0.0
    c.dtype = "float32"  # of activations: float32 or bfloat16
    c.attention = "auto"  # dense, blockwise, or auto: by memory
    c.tie_embeddings = False
    c.causal = True
    c.embed_std = 1.0  # of the token embeddings at the start
    c.memory = 0  # hidden states that each layer keeps of the segments before (Transformer-XL)
    return c


def training():
    """Section train: training."""
    c = ConfigDict()
    c.steps = 350
    c.length = 64  # L, tokens of a training window, or the longest n of a task's samples
    c.curriculum = "uniform"  # lengths of drawn samples: up to L; fixed: L; staged: rising to L
    c.batch = 32  # windows or samples a step, for each seed
    c.rate = 9e-3  # the highest learning rate
    c.rates = ()  # rates of which one is chosen by validation at the training length; (): rate
    c.schedule = "cosine"  # or wsd: warm-up, stable, decay
    c.cooldown = 0.2  # wsd: the part of the steps in which the rate falls, at the end
    c.warmup = 50  # steps of linear warm-up; cosine: at most a tenth of all
    c.final = 0.1  # the last learning rate, as a part of the highest
    c.decay = 0.1  # weight decay, on dense kernels alone
    c.clip = 1.0  # the global norm of a gradient
    c.beta1 = 0.9
    c.beta2 = 0.98
    c.steps_per_call = 25  # steps in one jitted scan
    c.remat = False  # layers are computed again in the backward pass: takes less memory
    # whose parameters training starts from: a finished run, <workdir>/<run id>, or a pretrained
    # model, hf:DIR or gguf:PATH, which then says what section lm and the tokenizer leave open
    c.init_from = ""
    c.init_drop = False  # drop those of its parameters that have no place here
    return c


def evaluation():
    """Section eval: what is scored, and how."""
    c = ConfigDict()
    c.lengths = (64, 128, 256, 512, 1024)  # the training length always joins them
    c.metrics = ()  # (): those of the task; of text same_targets, nonoverlapping, sliding, last_k
    c.swaps = ("window",)  # specs swapped in on the trained checkpoint
    c.variants = ()  # fields of the task other than in training, one evaluation each: "ignore=0.98"
    c.memory = ()  # segment memories to evaluate with; that of training always joins them
    c.targets = 16384  # scored tokens of each metric at each length
    c.stride = placeholder(int)  # of sliding; None: half the training length
    c.last = placeholder(int)  # k of same_targets and last_k; None: half the training length
    c.split = "test"  # validation serves choices: valid
    c.source = ""  # other text than that of training, as data.source names it
    c.samples = 512  # at each length, of a task that draws them
    c.batch_tokens = 4096  # of the windows or samples evaluated at once, at least one
    return c


def text():
    """Section data: the text and its tokens."""
    c = ConfigDict()
    # stdlib; files:PATH, a file, a folder or globs; tfds:NAME[:SPLIT], a prepared TFDS dataset
    c.source = "stdlib"
    # where a relative PATH begins ("": the working directory), or TFDS's data_dir ("": TFDS's own)
    c.data_dir = ""
    # or bpe:4096, trained on the training split; or that of file:tokenizer.json, hf:DIR, gguf:PATH
    c.tokenizer = "bytes"
    return c


def run():
    """Section run: seeds and devices."""
    c = ConfigDict()
    c.seeds = (0, 1, 2)
    c.choose_seeds = ()  # those that train at every one of train.rates; (): the first
    # all seeds in one program; False: one after another, bit-equal to runs of a single seed
    c.vmap_seeds = True
    # devices: data:8, seed:3,data:2 or data:2,fsdp:4; "": one. Not part of a run's id
    c.mesh = ""
    return c


def log():
    """Section log: checkpoints and trackers. It changes no result and is not part of a run's id."""
    c = ConfigDict()
    c.checkpoint_seconds = 60.0  # between two checkpoints
    c.valid_every = 100  # steps after which validation text is scored again
    c.tensorboard = False  # needs pe_jax[tensorboard]; in DIR/<run id>/tensorboard
    c.wandb = False  # Weights & Biases, needs pe_jax[wandb]; WANDB_MODE=offline: no network
    return c


def resources():
    """Section resources: what Ray keeps for a run (--engine=ray). It is not part of a run's id."""
    c = ConfigDict()
    c.cpus = 1  # cores, and as many threads
    c.gpus = 0.0  # 1: a GPU of its own; 0.5: two runs share one
    c.tpus = 0  # chips of a TPU
    return c


def chosen(arg):
    """(NAME, SPEC) of the argument "task=NAME,pe=SPEC"; text and rope where one is left out."""
    found = re.fullmatch(r"(?:task=([^,]+))?(?:(?:^|,)pe=(.+))?", arg or "")
    if not found:
        raise ValueError(
            "the argument of a config is pe=SPEC or task=NAME,pe=SPEC, as in base.py:pe=rope, "
            f"got {arg!r}"
        )
    return found[1] or "text", found[2] or "rope"


def task(name):
    """Section task: the name, and all fields of the task."""
    from pe_jax.tasks.section import hints, whole

    return _fields(whole({"name": name}), hints(name))


def encodings(spec):
    """Section pe: the spec, and for each member a section with all its fields, by its id."""
    import typing

    from pe_jax.spec.parse import defaults, parse

    section = ConfigDict({"spec": spec})
    for member in parse(spec):
        fields = defaults(member.cls) | member.fields
        section[member.id] = _fields(fields, typing.get_type_hints(member.cls))
    return section


def _fields(values, hints):
    """A section of these values; None is a placeholder for a value of the type in `hints`."""
    import typing

    section = ConfigDict()
    for name, value in values.items():
        if value is None:
            kinds = typing.get_args(hints[name]) or (hints[name],)
            kind = next(t for t in kinds if t is not type(None))
            section[name] = placeholder(kind)
        else:
            section[name] = value
    return section
