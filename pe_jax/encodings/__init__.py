"""The table of encodings, by the names that specs (specs/parse.py) give them: one file each.

The docstring of a file gives the formula with its paper, what is learned, what happens beyond the
training length L, and where it differs from the paper or the authors' code. A new one needs its
file, its line in ENCODINGS and, in tests/reference/, its formula in NumPy; the tests then cover it.
Where nothing is learned, it gets an entry in tests/reference/conformance.json, too.
"""

from __future__ import annotations

from pe_jax.encoding import Encoding
from pe_jax.encodings.abacus import Abacus
from pe_jax.encodings.alibi import ALiBi
from pe_jax.encodings.bam import BAM
from pe_jax.encodings.binary import Binary
from pe_jax.encodings.bipe import BiPE
from pe_jax.encodings.cape import CAPE
from pe_jax.encodings.carope import CARoPE
from pe_jax.encodings.chunk import Chunk
from pe_jax.encodings.clipped_rope import ClippedRoPE
from pe_jax.encodings.complex import Complex
from pe_jax.encodings.conv import Conv
from pe_jax.encodings.cope import CoPE
from pe_jax.encodings.cpb import CPB
from pe_jax.encodings.dape import DAPE
from pe_jax.encodings.dape_v2 import DAPEv2
from pe_jax.encodings.deberta import DeBERTa
from pe_jax.encodings.drope import DroPE
from pe_jax.encodings.dynamic_ntk import DynamicNTK
from pe_jax.encodings.evq_cosh import EVQCosh
from pe_jax.encodings.fire import FIRE
from pe_jax.encodings.floater import Floater
from pe_jax.encodings.fope import FoPE
from pe_jax.encodings.forget_gate import ForgetGate
from pe_jax.encodings.grape_a import GrapeA
from pe_jax.encodings.grape_ap import GrapeAP
from pe_jax.encodings.hierarchical import Hierarchical
from pe_jax.encodings.integer import Integer
from pe_jax.encodings.jordan_rope import JordanRoPE
from pe_jax.encodings.kerple_log import KerpleLog
from pe_jax.encodings.kerple_power import KerplePower
from pe_jax.encodings.leaky_rerope import LeakyReRoPE
from pe_jax.encodings.learned import Learned
from pe_jax.encodings.lerope import LeRoPE
from pe_jax.encodings.llama3 import Llama3
from pe_jax.encodings.lm_infinite import LMInfinite
from pe_jax.encodings.log_n import LogN
from pe_jax.encodings.longrope import LongRoPE
from pe_jax.encodings.mapformer import MapFormer
from pe_jax.encodings.mobius import Mobius
from pe_jax.encodings.mrrope import MrRoPE
from pe_jax.encodings.multiplicative import Multiplicative
from pe_jax.encodings.nezha import Nezha
from pe_jax.encodings.nope import NoPE
from pe_jax.encodings.normalized import Normalized
from pe_jax.encodings.ntk import NTK
from pe_jax.encodings.p_rope import PRoPE
from pe_jax.encodings.partial_rope import PartialRoPE
from pe_jax.encodings.path import PaTH
from pe_jax.encodings.pi import PI
from pe_jax.encodings.pj_bias import PJBias
from pe_jax.encodings.pope import PoPE
from pe_jax.encodings.position_coupling import PositionCoupling
from pe_jax.encodings.randomized import Randomized
from pe_jax.encodings.relative_projection import RelativeProjection
from pe_jax.encodings.repo import RePo
from pe_jax.encodings.rerope import ReRoPE
from pe_jax.encodings.resonance import Resonance
from pe_jax.encodings.rnn import RNN
from pe_jax.encodings.rope import RoPE
from pe_jax.encodings.sandwich import Sandwich
from pe_jax.encodings.selective_rope import SelectiveRoPE
from pe_jax.encodings.self_extend import SelfExtend
from pe_jax.encodings.shape import SHAPE
from pe_jax.encodings.shaw import Shaw
from pe_jax.encodings.sinusoidal import Sinusoidal
from pe_jax.encodings.ssmax import SSMax
from pe_jax.encodings.stick_breaking import StickBreaking
from pe_jax.encodings.streaming import Streaming
from pe_jax.encodings.string import String
from pe_jax.encodings.t5 import T5
from pe_jax.encodings.tisa import TISA
from pe_jax.encodings.transformer_xl import TransformerXL
from pe_jax.encodings.tupe import TUPE
from pe_jax.encodings.urpe import URPE
from pe_jax.encodings.window import Window
from pe_jax.encodings.xpos import XPos
from pe_jax.encodings.yarn import YaRN

ENCODINGS: dict[str, type[Encoding]] = {
    "nope": NoPE,
    "integer": Integer,
    "normalized": Normalized,
    "binary": Binary,
    "learned": Learned,
    "hierarchical": Hierarchical,
    "multiplicative": Multiplicative,
    "sinusoidal": Sinusoidal,
    "rnn": RNN,
    "floater": Floater,
    "conv": Conv,
    "complex": Complex,
    "rope": RoPE,
    "partial_rope": PartialRoPE,
    "p_rope": PRoPE,
    "xpos": XPos,
    "resonance": Resonance,
    "fope": FoPE,
    "pope": PoPE,
    "carope": CARoPE,
    "mapformer": MapFormer,
    "selective_rope": SelectiveRoPE,
    "repo": RePo,
    "mobius": Mobius,
    "jordan_rope": JordanRoPE,
    "evq_cosh": EVQCosh,
    "lerope": LeRoPE,
    "pi": PI,
    "ntk": NTK,
    "dynamic_ntk": DynamicNTK,
    "yarn": YaRN,
    "mrrope": MrRoPE,
    "llama3": Llama3,
    "longrope": LongRoPE,
    "clipped_rope": ClippedRoPE,
    "rerope": ReRoPE,
    "leaky_rerope": LeakyReRoPE,
    "self_extend": SelfExtend,
    "lm_infinite": LMInfinite,
    "streaming": Streaming,
    "string": String,
    "chunk": Chunk,
    "drope": DroPE,
    "t5": T5,
    "shaw": Shaw,
    "nezha": Nezha,
    "transformer_xl": TransformerXL,
    "tupe": TUPE,
    "deberta": DeBERTa,
    "urpe": URPE,
    "cope": CoPE,
    "dape": DAPE,
    "dape_v2": DAPEv2,
    "forget_gate": ForgetGate,
    "path": PaTH,
    "stick_breaking": StickBreaking,
    "alibi": ALiBi,
    "grape_a": GrapeA,
    "grape_ap": GrapeAP,
    "kerple_log": KerpleLog,
    "kerple_power": KerplePower,
    "sandwich": Sandwich,
    "cpb": CPB,
    "fire": FIRE,
    "pj_bias": PJBias,
    "bam": BAM,
    "tisa": TISA,
    "relative_projection": RelativeProjection,
    "randomized": Randomized,
    "shape": SHAPE,
    "cape": CAPE,
    "bipe": BiPE,
    "abacus": Abacus,
    "position_coupling": PositionCoupling,
    "window": Window,
    "log_n": LogN,
    "ssmax": SSMax,
}
