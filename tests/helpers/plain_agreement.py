"""Agreement of attention with gradients and blank-out, plainly: one text at a time, in loops, with SciPy's ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats

from effective_attention.graphs.flow import attention_flow


def summed(subject: Any, one: Any, label: int = 0) -> Any:
    """Absolute sum of the gradient at the output of BERT's embeddings, positions and layer norm included."""
    starts = []

    def leaf(_module: Any, _inputs: Any, output: Any) -> Any:
        starts.append(output.detach().requires_grad_())
        return starts[-1]

    given = {name: tensor for name, tensor in one.inputs.items() if name not in ("labels", "index")}
    hook = subject.model.bert.embeddings.register_forward_hook(leaf)
    try:
        subject.model(**given).logits[0, label].backward()
    finally:
        hook.remove()
        subject.model.zero_grad()
    return np.abs(starts[0].grad[0].sum(dim=-1).numpy())


def maps_of(one: Any, attention: str, layer: int) -> dict[str, Any]:
    """All queries by all keys, in loops over layers; negative weights by absolute value, rows as shares."""
    graph = torch.stack([each.part(attention)[0].double().abs().mean(dim=0) for each in one.layers])
    graph = graph / graph.sum(dim=-1, keepdim=True)
    rolled = torch.eye(graph.shape[-1], dtype=torch.float64)
    for weights in graph[: layer + 1]:
        rolled = (0.5 * weights + 0.5 * torch.eye(len(weights), dtype=torch.float64)) @ rolled
    flow = attention_flow(graph)[layer]
    flow = flow / flow.sum(dim=-1, keepdim=True)
    return {name: each.numpy() for name, each in (("raw", graph[layer]), ("rollout", rolled), ("flow", flow))}


def by_the_formula(one: Any, other: Any) -> float:
    """Dense ranks in the formula for ranks without ties."""
    left, right = (stats.rankdata(values, method="dense") for values in (one, other))
    return 1 - 6 * float(((left - right) ** 2).sum()) / (len(left) * (len(left) ** 2 - 1))


def by_scipy(one: Any, other: Any) -> float:
    """Spearman's correlation, ties averaged."""
    return float(stats.spearmanr(one, other).statistic)


def words_of(one: Any) -> Any:
    return ((one.tokens["kind"] == 0) | (one.tokens["kind"] == 1))[0].numpy()


def probability(subject: Any, inputs: Any, label: int) -> float:
    with torch.no_grad():
        given = {name: tensor for name, tensor in inputs.items() if name not in ("labels", "index")}
        return float(subject.model(**given).logits.double().softmax(dim=-1)[0, label])


def blank_out_of(subject: Any, one: Any, label: int) -> Any:
    """Each token replaced by [UNK] in turn, [CLS] and [SEP] too: the loss of probability."""
    whole, losses = probability(subject, one.inputs, label), []
    for place in range(one.inputs["input_ids"].shape[1]):
        ids = one.inputs["input_ids"].clone()
        ids[0, place] = subject.data.tokenizer.unk_token_id
        losses.append(whole - probability(subject, {**one.inputs, "input_ids": ids}, label))
    return np.abs(losses)


def norm_of(subject: Any, one: Any, label: int) -> Any:
    """Norm of the gradient of the log-odds of one of two classes at each token's embedding."""
    start = subject.model.get_input_embeddings()(one.inputs["input_ids"]).detach().requires_grad_()
    rest = {name: one.inputs[name] for name in ("attention_mask", "token_type_ids") if name in one.inputs}
    logits = subject.model(inputs_embeds=start, **rest).logits[0]
    (logits[label] - logits[1 - label]).backward()
    subject.model.zero_grad()
    return start.grad[0].norm(dim=-1).numpy()
