# %% [markdown]
# # A head under the microscope
#
# What does one head do, how much of its map is free, and what other map would have done the same?

# %%
import matplotlib.pyplot as plt
import pandas as pd
import torch
from transformers import AutoModel, AutoTokenizer

from effective_attention import analyse, trace
from effective_attention.analyses.alternative_attention import AlternativeAttention
from effective_attention.analyses.exemplars import Exemplars
from effective_attention.models.encoders import embedded_folder

model = AutoModel.from_pretrained(embedded_folder()).eval()
tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
text = (
    "The orchestra had rehearsed the symphony for a month, but on the night of the concert the conductor lost her "
    "glasses, so she led the whole performance from memory, and nobody in the hall noticed. Only the first violinist, "
    "who had hidden the glasses in his coat, looked disappointed when the applause went on."
)
batch = tokenizer(text, return_tensors="pt")
tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
seen = trace(model, batch)

# %% [markdown]
# ## Choose a head
#
# For every head: the weight on [CLS], what effective attention leaves there, how many tokens a row attends to (the
# exponential of its entropy), and the size of the null part.

# %%
rows = []
for number, layer in enumerate(seen.layers):
    standard, effective = layer.part("standard")[0], layer.part("effective")[0]  # (head, query, key)
    null = (standard - effective).norm(dim=(1, 2)) / standard.norm(dim=(1, 2))
    spread = torch.special.entr(standard).sum(dim=-1).exp().mean(dim=-1)
    for head in range(len(standard)):
        on_cls = (float(weights[head, :, 0].mean()) for weights in (standard, effective))
        rows.append((number, head, *on_cls, float(spread[head]), float(null[head])))
heads = pd.DataFrame(rows, columns=["layer", "head", "on [CLS]", "effective on [CLS]", "tokens", "null part"])
print(heads.sort_values("on [CLS]", ascending=False).head(5).round(3).to_string(index=False))
print(heads[heads["tokens"] > 30].sort_values("null part", ascending=False).head(5).round(3).to_string(index=False))

# %% [markdown]
# The first ones rest on [CLS]; they are looked at in the first notebook. We take one that spreads its weight over
# more than 30 tokens and has the largest null part. What is free in it? Every direction that its values cannot tell
# apart: tokens less the rank of the values.

# %%
broad = heads[heads["tokens"] > 30]
chosen = broad.loc[broad["null part"].idxmax()]
layer_number, head = int(chosen["layer"]), int(chosen["head"])
layer = seen.layers[layer_number]
rank = int(torch.linalg.matrix_rank(layer.value[0, head].double()))
print(f"layer {layer_number}, head {head}: {len(tokens)} tokens, rank {rank}: {len(tokens) - rank} directions are free")

# %% [markdown]
# ## Another map, the same output
#
# Brunner et al. (2020, §3.3): weights that are a distribution again, as far from the model's as linear programs find
# a way, and yet the head puts out the same. A control moves as much weight at random.

# %%
wanted = AlternativeAttention(layer=layer_number, head=head, heads="shown", bound=False)
table = analyse(model, tokenizer, [text], [wanted], progress=False)["alternative_attention"]
moved = table.query("quantity == 'distance' and method == 'program'")["value"].mean()
print(f"share of the weight that can stand elsewhere: {moved:.0%} (mean over tokens)")
changes = table.query("quantity == 'output_change'").set_index("attention")["value"]
print(f"change of the head's output: alternative {changes['alternative']:.0e}, control {changes['control']:.2f}")

# %%
weights = table.query("quantity == 'weight'")
figure, axes = plt.subplots(1, 3, figsize=(13, 5), sharey=True, layout="constrained")
for axis, name in zip(axes, ("standard", "alternative", "effective"), strict=True):
    cells = weights[weights["attention"] == name].pivot_table(index="query", columns="key", values="value")
    image = axis.imshow(cells, cmap="RdBu", vmin=-0.1, vmax=0.1)
    axis.set_title(name)
    axis.set_xticks(range(0, len(tokens), 2), tokens[::2], rotation=90, fontsize=6)
    axis.set_yticks(range(0, len(tokens), 2), tokens[::2], fontsize=6)
figure.colorbar(image, ax=axes, shrink=0.7, extend="both")
plt.show()

# %% [markdown]
# All three maps make the head do the same. What they have in common is what the head can be said to do.
#
# ## What induces it?
#
# The strongest pairs of tokens of this head over a few texts, under both attentions; [CLS] and [SEP] are left out.

# %%
texts = [
    text,
    "The mayor opened the new bridge on Saturday, two years late and far over budget, while a few hundred people stood "
    "in the rain and cheered for the engineers.",
    "After the storm the children collected wood along the beach, and their grandmother dried it behind the stove for "
    "the long winter evenings that everybody said were coming.",
]
found = analyse(model, tokenizer, texts, [Exemplars(layer=layer_number, head=head)], progress=False)["exemplars"]
pairs = found.drop_duplicates(["attention", "rank"])[["attention", "rank", "query_token", "key_token", "score"]]
print(pairs.to_string(index=False))

# %% [markdown]
# Every other head waits in the explorer: `explore(model, tokenizer, text).save("heads.html")`.
