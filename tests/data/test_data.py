import numpy as np
import pytest

from pe_jax.data.batches import Batches, Segments, stack


def numbers(windows: int, length: int = 4) -> list[np.ndarray]:
    """One document whose window w is length * w, length * w + 1, ..."""
    return [np.arange(windows * length + 1, dtype=np.int32)]


def epochs(windows: int, count: int, seed: int = 0, batch: int = 5) -> np.ndarray:
    """[count, windows]: which window came when."""
    ds = Batches(numbers(windows), 4, batch, seed)
    steps = -(-windows * count // batch)
    firsts = np.concatenate([ds[step][:, 0] for step in range(steps)])
    return (firsts // 4)[: windows * count].reshape(count, windows)


def test_a_batch_is_a_function_of_seed_and_step():
    documents = [np.random.default_rng(i).integers(0, 256, 500, np.uint8) for i in range(3)]
    ds = Batches(documents, 8, 6, 1)
    asked = {step: ds[step] for step in (0, 1, 40, 7, 1000003)}
    again, other = Batches(documents, 8, 6, 1), Batches(documents, 8, 6, 2)
    for step in reversed(asked):
        assert asked[step].dtype == np.int32 and asked[step].shape == (6, 9)
        np.testing.assert_array_equal(asked[step], again[step])
        np.testing.assert_array_equal(asked[step], ds[step])
        assert (asked[step] != other[step]).any()
    assert len({batch.tobytes() for batch in asked.values()}) == len(asked)


@pytest.mark.parametrize("windows", (1, 3, 100, 4096, 5000))
def test_an_epoch_has_every_window_equally_often(windows):
    passes = -(-4096 // windows)
    order = epochs(windows, 2 * passes, batch=64).reshape(2, -1)
    for epoch in order:
        np.testing.assert_array_equal(np.bincount(epoch), np.full(windows, passes))


def test_each_epoch_and_each_seed_has_an_order_of_its_own():
    orders = np.concatenate([epochs(4096, 2, seed, 64) for seed in (0, 1, 2**32 - 1)])
    agreement = (orders[:, None] == orders[None]).mean(-1)[~np.eye(6, dtype=bool)]
    assert agreement.max() < 0.01  # two random orders agree in 1 of 4096 places


def test_an_order_is_shuffled():
    order = epochs(5000, 1, batch=50)[0]
    assert abs(np.corrcoef(order, np.arange(5000))[0, 1]) < 0.1
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.1


def test_windows_are_neighbours_and_share_one_token():
    rows = np.unique(Batches(numbers(6), 4, 4096, 0)[0], axis=0)
    np.testing.assert_array_equal(rows, 4 * np.arange(6)[:, None] + np.arange(5))


@pytest.mark.parametrize("dtype", [np.int32, np.uint16])
def test_batches_keep_the_corpus_as_it_is(dtype):
    document = np.arange(9, dtype=dtype)
    for tokens in (Batches([document], 4, 2, 0)[0], Segments([document], 4, 2, 0, 4)[0][0]):
        tokens[:] = 99
        np.testing.assert_array_equal(document, np.arange(9))


def test_windows_never_cross_documents():
    sizes = {1: 5, 2: 9, 3: 4, 4: 30, 5: 1, 6: 8}
    documents = [np.full(size, value, np.uint8) for value, size in sizes.items()]
    rows = Batches(documents, 4, 11 * -(-4096 // 11), 0)[0]
    assert (rows == rows[:, :1]).all()
    values, counts = np.unique(rows[:, 0], return_counts=True)
    share = dict(zip(values.tolist(), (counts * 11 / len(rows)).tolist(), strict=True))
    assert share == {1: 1, 2: 2, 4: 7, 6: 1}  # (size - 1) // 4: 3 and 5 are too short


def test_the_last_tokens_of_a_document_are_left_out():
    ds = Batches([np.arange(12)], 4, 20, 0)
    assert sorted(set(ds[0].ravel().tolist())) == list(range(9))


@pytest.mark.parametrize("windows, seed", [(20, 5), (5000, 2**32 - 1)])
def test_the_order_is_that_of_grains_shuffle(windows, seed):
    grain = pytest.importorskip("grain")
    items = range(windows) if windows >= 4096 else np.tile(range(windows), -(-4096 // windows))
    ds = grain.MapDataset.source(items).seed(seed).shuffle().repeat()
    got = epochs(windows, 3 * (-(-4096 // windows)), seed, 64).ravel()
    np.testing.assert_array_equal(got, [ds[i] for i in range(got.size)])


def test_stack_is_steps_by_replicas():
    replicas = [Batches(numbers(50), 4, 3, seed) for seed in (0, 1)]
    stacked = stack(replicas, 7, 4)
    assert stacked.shape == (4, 2, 3, 5) and stacked.dtype == np.int32
    for step in range(4):
        for replica, ds in enumerate(replicas):
            np.testing.assert_array_equal(stacked[step, replica], ds[7 + step])


def test_too_short_a_text_says_what_it_needs():
    documents = [np.zeros(size, np.uint8) for size in (5, 37, 0)]
    message = r"has 37 tokens, a window needs 65 \(train.length \+ 1\)"
    with pytest.raises(ValueError, match=message):
        Batches(documents, 64, 2, 0)
    with pytest.raises(ValueError, match="has 37 tokens, a window needs 38"):
        Batches(documents, 37, 2, 0)
    assert Batches(documents, 36, 2, 0)[0].shape == (2, 37)
