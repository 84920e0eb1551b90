# %% [markdown]
# # My classifier and my CSV
#
# A classifier of your own, saved by `save_pretrained`, and a CSV of your own with three classes: test it, analyse it,
# and ask which words decided a prediction. So that this runs anywhere, the first two cells make both; skip them if
# you have yours.

# %%
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from effective_attention import analyse, explain, explore
from effective_attention.models.encoders import embedded_folder

torch.manual_seed(0)
LIMIT = int(os.environ.get("EXAMPLES_LIMIT", "144"))  # messages to learn from; our tests take fewer
OPENINGS = ("Good morning,", "Hello again,", "To whom it may concern,", "Hi there,")
MATTERS = {
    "delivery": (
        "the parcel that you promised for Tuesday has still not arrived",
        "the courier left my box in front of the wrong house",
        "my order has been sitting in the same depot for nine days",
    ),
    "payment": (
        "my card was charged twice for one and the same pair of boots",
        "the refund for the broken lamp has not reached my account",
        "the invoice shows a fee that nobody had told me about",
    ),
    "praise": (
        "the woman at the counter was patient and kind with my father",
        "these are the best headphones that I have ever owned",
        "everything was perfect and I have told all my friends",
    ),
}
CLOSINGS = (
    "and since I have been a customer for a good ten years I thought that somebody in your office would like to know.",
    "which is why I am writing to you today, on a Sunday evening, instead of sitting in the garden with a book.",
    "and I would be glad of a short answer before the end of the week, when my sister and I are going away.",
    "as I have already said to your colleague on the telephone, who asked me to put it into writing.",
    "and that, I should say, in a week in which nearly nothing else went as I had hoped it would.",
)
rows = [
    {"text": f"{opening} {matter}, {closing}", "label": label}
    for label, matters in MATTERS.items()
    for opening, matter, closing in product(OPENINGS, matters, CLOSINGS)
]
messages = pd.DataFrame(rows).sample(frac=1, random_state=0)
Path("my_data").mkdir(exist_ok=True)
messages[:LIMIT].to_csv("my_data/train.csv", index=False)
messages[LIMIT : LIMIT + 36].to_csv("my_data/validation.csv", index=False)
print(messages["label"].value_counts().to_dict())
print(messages["text"].iloc[0])

# %%
names = sorted(MATTERS)
tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
model = AutoModelForSequenceClassification.from_pretrained(
    embedded_folder(), num_labels=3, id2label=dict(enumerate(names)), label2id={name: n for n, name in enumerate(names)}
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
model.train()
for start in range(0, LIMIT, 8):
    part = messages[:LIMIT].iloc[start : start + 8]
    batch = tokenizer(part["text"].tolist(), padding=True, return_tensors="pt")
    loss = model(**batch, labels=torch.tensor([names.index(label) for label in part["label"]])).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
model.save_pretrained("my-classifier")
tokenizer.save_pretrained("my-classifier")
print(f"loss of the last batch: {loss.item():.2f}")

# %% [markdown]
# ## Test it, with both attentions
#
# The command that one would type: the classifier's own head is used, and its labels are matched with those of the
# files by name. To finetune instead: `python train.py task=custom data=local data.dir=my_data
# task.text_columns=[text]`.

# %%
command = "evaluate task=custom data=local data.dir=my_data task.text_columns=[text] checkpoint=my-classifier"
quiet = "analysis=null_space logger=csv trainer=cpu trainer.enable_progress_bar=false hydra.run.dir=my_run"
done = subprocess.run(
    [sys.executable, "-m", "effective_attention", *command.split(), *quiet.split()],
    capture_output=True,
    text=True,
    check=True,
)
print("\n".join(line for line in done.stdout.splitlines() if line.startswith(" ")))

# %% [markdown]
# Everything else is in `my_run`: tables, figures, `report.html`.

# %%
print(sorted(path.name for path in Path("my_run").iterdir()))

# %% [markdown]
# ## Why this prediction?
#
# Highlighted in a notebook, saved as a page, or as a table. Beside it stands how far to trust it: what happens to the
# probability of this very text without the highest-ranked words, and with these alone, next to random rankings.

# %%
text = (
    "Hello, I do not like to complain, but the courier threw the parcel over the fence, and since I have been a "
    "customer for ten years I thought that somebody in your office would like to know."
)
why = explain(model, tokenizer, text, method="integrated_gradients")
why.save("why.html")
print(why.prediction)
why

# %%
words = why.to_frame()
print(words.reindex(words["score"].abs().sort_values(ascending=False).index).head(6)[["word", "score"]].round(3))

# %% [markdown]
# Any method of the league by name; those that read attention read effective or standard attention.

# %%
for method in ("gradient_x_input", "rollout"):
    print(explain(model, tokenizer, text, method=method))

# %% [markdown]
# ## Look at it, measure it

# %%
print(explore(model, tokenizer, text).save("heads.html"))
texts = messages["text"].iloc[LIMIT : LIMIT + 16].tolist()
table = analyse(model, tokenizer, texts, ["delimiters"], progress=False)["delimiters"]
print(table.pivot_table(index="delimiter", columns="attention", values="value").round(3))
