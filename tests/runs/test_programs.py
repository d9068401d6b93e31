"""Compiled programs that are kept give the same bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from evaluated import evaluated, stacked
from jax.experimental.compilation_cache import compilation_cache

from pe_jax.evaluation.config import EvalConfig
from pe_jax.model.config import LmConfig
from pe_jax.runs import environment
from pe_jax.specs.parse import make
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, structure

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
    "jax_compilation_cache_max_size",
)
LM = LmConfig(vocab=8, layers=1, model=8, heads=2, mlp=4)
needs_sound = pytest.mark.skipif(
    environment.jaxlib.version.__version_info__ < environment.SOUND,
    reason="jaxlib refuses its programs",
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's folder of caches; JAX is as it was afterwards."""
    before = {name: getattr(jax.config, name) for name in OPTIONS}
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def counts():
    """How often JAX has compiled a program, and how often it has loaded one."""
    seen = {"cache_misses": 0, "cache_hits": 0}

    def listen(event, **_):
        name = event.rpartition("/")[2]
        if name in seen:
            seen[name] += 1

    jax.monitoring.register_event_listener(listen)
    yield seen
    jax.monitoring.unregister_event_listener(listen)


def scores():
    """An evaluation with nothing compiled that another one has left in this process."""
    jax.clear_caches()
    encodings = make("randomized+rope", LM.dims(8))
    params = init(LM, encodings, TrainConfig(), (0, 1))["params"]
    models = stacked(structure(LM, encodings)[0], params, encodings, seeds=(0, 1))
    config = EvalConfig(lengths=(8, 32), targets=64).resolved(8)
    return evaluated(models, [np.arange(200) % 8], config)


def kept(home):
    return sorted(path for path in home.glob("pe_jax/programs/*/*-cache"))


@pytest.mark.slow
@needs_sound
def test_evaluating_again_compiles_nothing_and_gives_the_same_bits(home, counts):
    plain = scores()
    assert counts["cache_misses"] == 0 and not kept(home)
    environment.keep_programs()
    first, compiled = scores(), counts["cache_misses"]
    assert compiled >= 8 and len(kept(home)) == compiled
    assert (again := scores()) == first == plain and again.rows[0].value is not None
    assert counts["cache_misses"] == compiled == counts["cache_hits"]


@pytest.mark.parametrize("value", ("", "/of/the/user"))
def test_the_users_own_choice_stands(home, monkeypatch, value):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", value)
    environment.keep_programs()
    assert jax.config.jax_compilation_cache_dir is None and not kept(home)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    jax.config.update("jax_compilation_cache_dir", value)
    if value:
        environment.keep_programs()
        assert jax.config.jax_compilation_cache_dir == value


def test_a_folder_that_cannot_be_made_is_no_error(home):
    (home / "pe_jax").write_text("a file stands where the folder would be")
    environment.keep_programs()
    assert jax.config.jax_compilation_cache_dir is None
    assert float(jnp.ones(3).sum()) == 3.0


def test_without_a_home_there_is_no_cache(home, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(environment.Path, "home", no_home)
    environment.keep_programs()
    assert jax.config.jax_compilation_cache_dir is None
