import pytest

from pe_jax.report import style


@pytest.fixture
def unsaved(monkeypatch):
    """Figures are drawn, and put on the page, but not written as files: half of the time."""
    monkeypatch.setattr(style, "save", lambda figure, path: [path.with_name(f"{path.name}.png")])
