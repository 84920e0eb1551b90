"""What ``dependency_alignment`` found, in sentences."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.dependency_alignment.reductions import aligned, best_heads, fixed_rules
from effective_attention.reports.findings import extreme_layers, head_name, percent, said_of
from effective_attention.reports.reductions import attentions, by_layer, panels


def found_alignment(table: DataFrame) -> list[str]:
    """Say which layer follows dependencies most, whether a fixed rule does better, how many relations have a head."""
    rows = aligned(table)
    said = extreme_layers(rows, "attention follows dependencies most in")
    for panel in panels(table) if len(table) else ():
        for kind in attentions(panel.table):
            sentences = [_against_rules(aligned(panel.table), kind), _heads(panel.table, kind)]
            said += [said_of(panel, table, sentence) for sentence in sentences if sentence]
    return said


def _against_rules(rows: DataFrame, kind: str) -> str:
    mine = rows[rows["attention"] == kind]
    means = by_layer(mine).dropna()
    rules = {name: value for name, value in fixed_rules(mine).items() if value == value} if len(mine) else {}
    if means.empty or not rules:
        return ""
    best = max(rules, key=lambda name: rules[name])
    word = "more than" if means.max() > rules[best] else "no more than"
    title = {"previous": "all attention on the previous word", "next": "all attention on the next word"}.get(
        best, "even attention"
    )
    reached = f"the best layer's mean ({percent(means.max())})"
    return f"{kind} attention: {reached} is {word} {title} gives ({percent(rules[best])})."


def _heads(table: DataFrame, kind: str) -> str:
    """Say for how many relations a head finds the partner more often than a fixed rule, and name the best."""
    found = best_heads(table, kind)
    if not found:
        return ""
    better = [best for best in found if best.gain > 0]
    count = f"{kind} attention: on texts it was not chosen on, a head beats the fixed rules for {len(better)} of "
    count += f"{len(found)} relations"
    if not better:
        return f"{count}."
    best = better[0]
    return f"{count}, most for {best.relation} ({head_name(best.layer, best.head)}: {percent(best.value)} found)."
