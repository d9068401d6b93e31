"""Copies of a text have the same files, and train on them in other orders."""

from experiments.studies import orders
from pe_jax.data import load
from pe_jax.data.batches import Batches


def test_orders_change_the_batches_and_nothing_else(tmp_path):
    for split, count in (("train", 8), ("valid", 2), ("test", 2)):
        for number in range(count):
            path = tmp_path / "text" / split / f"{split}{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{split} {number} " * 40)
    orders.write(tmp_path / "text", tmp_path / "orders")
    texts = [load.load(f"files:{tmp_path}/orders/{number:02}") for number in range(orders.VALUES)]
    batches = {Batches(text.splits["train"], 16, 8, seed=0)[0].tobytes() for text in texts}
    assert len(batches) == orders.VALUES
    for split in ("train", "valid", "test"):
        kept = [sorted(document.tobytes() for document in text.splits[split]) for text in texts]
        assert all(files == kept[0] for files in kept)
    assert len({text.splits["test"][0].tobytes() for text in texts}) == 1
