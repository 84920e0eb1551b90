# %% [markdown]
# # The paper's figures, on a subset
#
# Sun & Marasović (2021) finetune BERT on GLUE and ask what [CLS] attends to in the last layer (Fig. 1), and how much
# attention all other tokens give to [CLS] and [SEP] (Fig. 5, 6). Here the same for MiniLM, on some pairs of the
# embedded sample. It is another model and not GLUE, so the question is what is alike and what is not. On the real
# thing one command does it: `python evaluate.py -m task=rte,mrpc,qnli,sst2,stsb data=hub 'checkpoint=…'
# attention=all`.

# %%
import os
from importlib.resources import files

import matplotlib.pyplot as plt
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from effective_attention import analyse
from effective_attention.models.encoders import embedded_folder

torch.manual_seed(0)
LIMIT = int(os.environ.get("EXAMPLES_LIMIT", "80"))  # pairs to learn from and to look at; our tests take fewer
sample = files("effective_attention") / "data" / "sample" / "mrpc"
train, validation = (
    pd.read_json(str(sample / f"{name}.jsonl"), lines=True).head(LIMIT) for name in ("train", "validation")
)
print(train.iloc[0].to_dict())

# %% [markdown]
# ## Finetune
#
# Briefly: a few steps of AdamW are enough to make the last layers move. `python train.py task=mrpc` does it properly.

# %%
tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
model = AutoModelForSequenceClassification.from_pretrained(embedded_folder(), num_labels=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for start in range(0, len(train), 8):
    rows = train.iloc[start : start + 8]
    batch = tokenizer(rows["sentence1"].tolist(), rows["sentence2"].tolist(), padding=True, return_tensors="pt")
    loss = model(**batch, labels=torch.tensor(rows["label"].tolist())).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
print(f"loss of the last batch: {loss.item():.2f}")

# %% [markdown]
# ## Analyse
#
# One pass over the pairs for both analyses; words are tagged by the embedded tagger.

# %%
pairs = list(zip(validation["sentence1"], validation["sentence2"], strict=True))
tables = analyse(model, tokenizer, pairs, ["token_types", "delimiters"], progress=False)

# %% [markdown]
# ## Figure 1: what [CLS] attends to in the last layer
#
# The paper: [SEP] and punctuation lose under effective attention, nouns and verbs gain; [CLS] stays.

# %%
types = tables["token_types"].query("statistic == 'largest'")
figure, axes = plt.subplots(2, 1, figsize=(8, 4.4), sharex=True, layout="constrained")
for axis, name, colours in zip(axes, ("standard", "effective"), ("Greens", "Blues"), strict=True):
    cells = types[types["attention"] == name].pivot_table(index="token_type", columns="head", values="value")
    image = axis.imshow(cells, cmap=colours, vmin=0, vmax=types["value"].max(), aspect="auto")
    axis.set_yticks(range(len(cells)), cells.index)
    axis.set_title(name)
    figure.colorbar(image, ax=axis)
axes[1].set(xlabel="head")
axes[1].set_xticks(range(cells.shape[1]))
plt.show()
print(types.pivot_table(index="token_type", columns="attention", values="value")[["standard", "effective"]].round(3))

# %% [markdown]
# ## Figures 5 and 6: attention to [CLS] and [SEP] from all other tokens
#
# The paper's BERT rests on [SEP], which effective attention disregards. MiniLM rests on [CLS].

# %%
delimiters = tables["delimiters"]
figure, axes = plt.subplots(2, 2, figsize=(8, 4.8), sharex=True, sharey=True, layout="constrained")
for across, delimiter in zip(axes, ("cls", "sep"), strict=True):
    for axis, name, colours in zip(across, ("standard", "effective"), ("Greens", "Blues"), strict=True):
        one = delimiters.query("attention == @name and delimiter == @delimiter")
        image = axis.imshow(
            one.pivot_table(index="layer", columns="head", values="value"), cmap=colours, vmin=0, vmax=1
        )
        axis.set(title=f"{name}, to [{delimiter.upper()}]", xlabel="head", ylabel="layer")
        figure.colorbar(image, ax=axis, shrink=0.8)
plt.show()
means = delimiters.pivot_table(index="delimiter", columns="attention", values="value")[["standard", "effective"]]
print(means.round(3))

# %% [markdown]
# ## In words

# %%
for delimiter, row in means.iterrows():
    before, after = row["standard"], row["effective"]
    print(f"[{str(delimiter).upper()}]: {before:.3f} → {after:.3f}, {after / before:.0%} of it stays")
