"""Pretrained models of other libraries, read into this package's language model.

load.py reads a source, "hf:DIR" or "gguf:PATH": config.py understands the description of a model,
tensors.py its weights, gguf_file.py the format of llama.cpp. What is not understood is refused,
since a field that is ignored silently is another model.
"""
