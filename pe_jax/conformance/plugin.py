"""A plugin of pytest that holds functions of your own to the vectors, in a test or without one.

    def test_yarn(conformance):
        case = conformance("yarn")  # as of check.load
        conformance.agrees(case, frequencies=inv_freq(**case["parameters"]))

    pytest -p pe_jax.conformance.plugin --pe-jax-conformance=mypkg.rope:outputs
           [-k yarn] [--pe-jax-pairs=interleaved]

`outputs(case)` returns the outputs of a case by name, as of check.diagnose, frequencies alone, or
None for a case that is not yours. Each case is then a test of its own, after the tests that pytest
collects. A failure names the fault. In a copy of this folder it is `-p vectors.plugin`.
"""

import importlib

import pytest

check = importlib.import_module(__name__.removesuffix("plugin") + "check")  # of a copy, its own


def pytest_addoption(parser):
    group = parser.getgroup("conformance", "test vectors of positional encodings")
    group.addoption("--pe-jax-conformance", metavar="MODULE:FUNCTION", help="outputs of a case")
    group.addoption("--pe-jax-pairs", default="halves", choices=("halves", "interleaved"))


class Conformance:
    """The fixture: a case by its name, and an assertion on outputs."""

    def __init__(self, pairs):
        self.pairs = pairs

    def __call__(self, name):
        return check.load(name)

    def agrees(self, case, **outputs):
        """AssertionError, with the fault, unless the outputs are as in the case."""
        said = check.diagnose(case, pairs=self.pairs, **outputs)
        assert said.startswith("agrees"), f"{case['name']}: {said}"


@pytest.fixture
def conformance(request):
    return Conformance(request.config.getoption("--pe-jax-pairs"))


def pytest_collection_modifyitems(session, config, items):
    if not (named := config.getoption("--pe-jax-conformance")):
        return
    module, _, function = named.partition(":")
    outputs = getattr(importlib.import_module(module), function or "outputs")
    for name in sorted(path.stem for path in check.FOLDER.glob("*.json")):
        items.append(Case.from_parent(session, name=f"conformance[{name}]", outputs=outputs))


class Case(pytest.Item):
    """The test of one case."""

    def __init__(self, outputs, **given):
        super().__init__(**given)
        self.outputs = outputs

    def runtest(self):
        case = check.load(self.name.partition("[")[2][:-1])
        if (found := self.outputs(case)) is None:
            pytest.skip("no outputs")
        found = found if isinstance(found, dict) else {"frequencies": found}
        Conformance(self.config.getoption("--pe-jax-pairs")).agrees(case, **found)

    def repr_failure(self, excinfo, style=None):
        if excinfo.errisinstance(AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, self.name
