# %% [markdown]
# # First look
#
# One text, one head: what it attends to, and what of that reaches the output. Everything here runs on the model that
# comes with the package; put your own in its place.

# %%
import matplotlib.pyplot as plt
import torch
from transformers import AutoModel, AutoTokenizer

from effective_attention import analyse, decompose, explore, trace, use_attention
from effective_attention.models.encoders import embedded_folder

model = AutoModel.from_pretrained(embedded_folder()).eval()
tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
text = (
    "The keeper of the old lighthouse had not spoken to anyone for weeks, so when a small boat came in with the tide "
    "he ran down to the harbour and waved until the fishermen saw him."
)
batch = tokenizer(text, return_tensors="pt")
tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
print(len(tokens), "tokens; a head is", model.config.hidden_size // model.config.num_attention_heads, "wide")

# %% [markdown]
# The text is longer than a head is wide, so some of the attention cannot reach the output. A *trace* is what one
# forward pass left behind: attention and values of every layer, and beside them the part that counts.

# %%
seen = trace(model, batch)
layer, head = seen.layers[1], 11
standard, effective = layer.part("standard")[0, head], layer.part("effective")[0, head]

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
for axis, weights, name in zip(axes, (standard, effective), ("standard", "effective"), strict=True):
    image = axis.imshow(weights, cmap="RdBu", vmin=-1, vmax=1)
    axis.set_title(f"{name}: {float(weights[:, 0].mean()):.0%} on {tokens[0]}")
    axis.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=6)
    axis.set_yticks(range(len(tokens)), tokens, fontsize=6)
figure.colorbar(image, ax=axes, shrink=0.7)
plt.show()

# %% [markdown]
# Three quarters of the weight rest on [CLS], and it hardly matters: the head's output is the same without it. That is
# no approximation, it is the definition.

# %%
parts = decompose(layer.attention, layer.value)
difference = (parts.effective @ layer.value - layer.attention @ layer.value).abs().max()
print(f"largest difference in any head's output: {float(difference):.0e}")

with torch.no_grad():
    own = model(**batch).last_hidden_state
    with use_attention(model, "effective"):
        swapped = model(**batch, output_attentions=True)
print(f"largest difference in the model's output: {float((own - swapped.last_hidden_state).abs().max()):.0e}")

# %% [markdown]
# ## Where the two part
#
# Up to as many tokens as a head is wide nothing is free, and the two maps are one. Here the same text, cut shorter
# and shorter.


# %%
def correlation(length: int) -> float:
    """Correlate standard and effective attention of all heads on the first tokens of the text."""
    short = {name: values[:, :length] for name, values in batch.items()}
    layers = trace(model, short).layers
    both = [torch.stack([one.part(name)[0] for one in layers]).flatten() for name in ("standard", "effective")]
    return float(torch.corrcoef(torch.stack(both))[0, 1])


lengths = range(8, len(tokens) + 1, 4)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(lengths, [correlation(length) for length in lengths], marker="o")
axis.axvline(32, color="grey", linestyle=":")
axis.set(xlabel="tokens", ylabel="correlation", title="standard and effective attention, all heads")
plt.show()

# %% [markdown]
# ## Many texts, and every head
#
# `analyse` asks any of the analyses by name and gives a pandas table for each; `explore` makes a page to click
# through, in one file that can be sent to anybody.

# %%
texts = [
    text,
    "She read the letter twice, folded it along the old creases, and put it back into the drawer where it had lain, "
    "between the photographs and the keys that no longer opened anything in the house.",
]
table = analyse(model, tokenizer, texts, ["delimiters"], progress=False)["delimiters"]
print(table.pivot_table(index="layer", columns=["delimiter", "attention"], values="value").round(3))

# %%
page = explore(model, tokenizer, text)
print(page.save("first_look.html"))
