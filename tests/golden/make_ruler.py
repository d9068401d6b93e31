"""Makes ruler.json: prompts of NVIDIA's generator, byte for byte, with what it has drawn for them,
for tests/evaluation/test_prompts.py.

    pip install wonderwords==3.0.1 numpy
    git clone https://github.com/NVIDIA/RULER
    python tests/golden/make_ruler.py RULER/scripts/data/synthetic

Its modules run as they are, but for the tokenizer, which these functions do not call, and nltk's
sentences, which end here at ". ", "! " and "? ". Nothing of pe_jax is imported.
"""

import importlib
import json
import random
import re
import sys
import tempfile
import types
from pathlib import Path

ESSAY = (
    "The river was high that spring. Nobody in the village had seen it so. Was it the snow? Old "
    "people said it was! They had said so the year before, too. A boy ran along the bank with a "
    "dog. The dog was faster. Under the bridge a boat had been tied up, and it knocked against the "
    "stones all night. In the morning it was gone. The miller swore he had tied it well. His wife "
    "laughed. She had seen who took it. But she would not tell, and nobody asked twice. By noon "
    "the water fell. By evening there were fish on the road."
)


def loaded(folder, name, *arguments):
    """The module `name` of the generator, run with these arguments, and the list of what
    random.sample gives from now on.
    """
    sys.argv = [name, "--save_dir=.", "--save_name=x", "--tokenizer_path=x", "--num_samples=1"]
    sys.argv += ["--max_seq_length=256", "--tokens_to_generate=30", *arguments]
    sys.modules.pop(name, None)
    module, samples = importlib.import_module(name), []
    sample = random.sample

    def logged(*given):
        samples.append(sample(*given))
        return samples[-1]

    module.random = types.SimpleNamespace(**{**vars(random), "sample": logged})
    return module, samples


def niah(folder, tasks, haystack, keys, queries, units):
    template = tasks["niah"]["template"] + tasks["niah"]["answer_prefix"]
    options = [f"--type_haystack={haystack}", f"--num_needle_k={keys}", f"--num_needle_q={queries}"]
    module, samples = loaded(folder, "niah", f"--template={template}", *options)
    drawn = {"generate_random_word": [], "generate_random_number": []}
    for name, kept in drawn.items():
        draw = getattr(module, name)

        def logged(draw=draw, kept=kept):
            kept.append(draw())
            return kept[-1]

        setattr(module, name, logged)
    text, answers = module.generate_input_output(units)
    words, values = drawn.values()
    order = list(range(keys))
    random.Random(42).shuffle(order)
    places, asked = samples
    if haystack == "noise":
        places = sorted(places, reverse=True)
    else:
        places = sorted(map(int, places))
    return {
        "essay": haystack == "essay",
        "units": units,
        "keys": [words[i] for i in order],
        "values": [values[i] for i in order],
        "places": places,
        "queries": [words[i] for i in asked],
        "answers": answers,
        "text": text,
    }


def tracked(folder, tasks, noise):
    task = tasks["variable_tracking"]
    template = task["template"] + task["answer_prefix"]
    module, samples = loaded(folder, "variable_tracking", f"--template={template}")
    text, names = module.generate_input_output(noise, 1, 4)
    value = re.search(r"VAR \w+ = (\d{5})", text)[1]
    places = sorted(samples[0])
    return {"units": noise, "names": names, "value": value, "places": places, "text": text}


def main():
    folder = Path(sys.argv[1]).resolve()
    stubs = {
        "tokenizer": {"select_tokenizer": lambda *given: None},
        "manifest_utils": {"write_manifest": None},
        "nltk": {},
        "nltk.tokenize": {"sent_tokenize": lambda text: re.split(r"(?<=[.!?])\s+", text)},
    }
    for name, parts in stubs.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(parts)
    with tempfile.TemporaryDirectory() as copy:
        for path in folder.glob("*.py"):
            (Path(copy) / path.name).write_text(path.read_text())
        (Path(copy) / "json").mkdir()
        (Path(copy) / "json" / "PaulGrahamEssays.json").write_text(json.dumps({"text": ESSAY}))
        sys.path.insert(0, copy)
        tasks = importlib.import_module("constants").TASKS
        cases = {
            "niah_single_1": niah(copy, tasks, "noise", 1, 1, 6),
            "niah_single_2": niah(copy, tasks, "essay", 1, 1, 80),
            "niah_multikey_1": niah(copy, tasks, "essay", 4, 1, 100),
            "niah_multiquery": niah(copy, tasks, "essay", 4, 4, 115),
            "variable_tracking": tracked(copy, tasks, 7),
        }
    out = {"essay": ESSAY, "cases": cases}
    (Path(__file__).parent / "ruler.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
