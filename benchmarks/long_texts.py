"""How much memory does the attention of a long text take: all of it, its factors, and analyses of both readings?

    python benchmarks/long_texts.py                 # 8,192 tokens: about ten minutes
    python benchmarks/long_texts.py --tokens 4096

One layer of 12 heads of 64, float32. Each case runs in a process of its own; what counts is the most memory that the
process held at once, less what it held when everything was loaded and nothing computed. *eager* is softmax and product
with the weights kept, *factors* PyTorch's fast kernel and ``factorise``, in the same process before anything is asked
of them. *analyses* is ``analyse`` on one text, a model with one layer, standard and effective attention: distance,
entropy, variability, delimiters, token_type_profile and null_space.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Callable

import torch
from torch import Tensor

HEADS = 12
WIDTH = 64
ANALYSES = ("distance", "entropy", "variability", "delimiters", "token_type_profile", "null_space")


def tensors(tokens: int) -> list[Tensor]:
    """Return queries, keys and values."""
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, tokens, WIDTH) for _ in range(3)]


def eager(tokens: int) -> Callable[[], object]:
    """Attend, and keep the weights."""
    query, key, value = tensors(tokens)

    def run() -> object:
        weights = (query @ key.mT * WIDTH**-0.5).softmax(dim=-1)
        return weights, weights @ value

    return run


def factors(tokens: int, *, causal: bool) -> Callable[[], object]:
    """Attend by the fast kernel, and find the factors of effective attention."""
    from effective_attention import factorise

    query, key, value = tensors(tokens)
    factorise(query[:, :, :80], value[:, :, :80], causal=causal)  # loads what is compiled

    def run() -> object:
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return factorise(output, value, causal=causal)

    return run


def analyses(tokens: int, *, causal: bool) -> Callable[[], object]:
    """Analyse one text."""
    import transformers

    from effective_attention import analyse
    from effective_attention.models.encoders import PretrainedEncoder

    torch.manual_seed(0)
    tokenizer = PretrainedEncoder("minilm").tokenizer()
    tokenizer.model_max_length = tokens
    sizes = {"vocab_size": len(tokenizer), "num_hidden_layers": 1, "max_position_embeddings": tokens}
    if causal:
        config = transformers.LlamaConfig(hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, pad_token_id=0, **sizes)
    else:
        config = transformers.BertConfig(hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, **sizes)
    model = transformers.AutoModel.from_config(config).eval()
    text = "The old cat sat on the mat , and the dogs ran after a red car . " * (tokens // 16)
    return lambda: analyse(model, tokenizer, [text], list(ANALYSES), max_length=tokens, progress=False)


CASES: dict[str, Callable[[int], Callable[[], object]]] = {
    "eager": eager,
    "factors": lambda tokens: factors(tokens, causal=False),
    "factors, causal": lambda tokens: factors(tokens, causal=True),
    "analyses": lambda tokens: analyses(tokens, causal=False),
    "analyses, causal": lambda tokens: analyses(tokens, causal=True),
}


def held() -> float:
    """Return the most memory this process has held so far, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 if sys.platform != "darwin" else 1024**2)


def measure(case: str, tokens: int) -> None:
    """Run a case in this process, and print the memory before it, and at most."""
    run = CASES[case](tokens)
    before = held()
    with torch.no_grad():
        kept = run()
    print(before, held(), kept is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)  # what this script calls itself with
    options = parser.parse_args()
    if options.case is not None:
        measure(options.case, options.tokens)
        return
    print(f"{options.tokens} tokens, {HEADS} heads of {WIDTH} | before, MB | more at most, MB | share of eager's")
    print("---|---|---|---")
    whole = 0.0
    for case in CASES:
        call = [sys.executable, __file__, "--case", case, "--tokens", str(options.tokens)]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
        before, most = map(float, done.stdout.splitlines()[-1].split()[:2])
        whole = whole or most - before
        share = (most - before) / whole
        print(f"{case} | {before:.0f} | {most - before:.0f} | {share:.2f} (1/{1 / share:.0f})", flush=True)


if __name__ == "__main__":
    main()
