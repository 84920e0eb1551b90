"""Lay maps out on numbered sheets, thirty a sheet, as they were labelled: without anything that hints at a label.

    python scripts/patterns/contact_sheets.py <folder>                  # all maps, in the order of maps.npz
    python scripts/patterns/contact_sheets.py <folder> --lot real       # those of maps_real.npz
    python scripts/patterns/contact_sheets.py <folder> --second 100     # a hundred at random, disguised
    python scripts/patterns/contact_sheets.py <folder> --lot fresh --second 216 --held-out 10 29 --seed 7
    python scripts/patterns/contact_sheets.py --examples                # scripts/patterns/examples, from labels.csv

The ticks beside a map mark the first [SEP]; a single sentence has none, because its first [SEP] is the last token.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

HERE = Path(__file__).parent
COLUMNS, ROWS = 6, 5
# of a tile, in pixels
SCALE = 3
MARGIN = 4
HEAD = 11
EDGE = 8  # columns of the left edge are shown again beside the map, so many times as wide
VIRIDIS, GREY = ((mpl.colormaps[name](np.arange(256))[:, :3] * 255).astype(np.uint8) for name in ("viridis", "gray"))
Maps = dict[str, tuple[NDArray[np.uint8], dict[str, str]]]


def read(lot: str = "") -> Maps:
    """Read the maps of a lot: id → image and what maps.csv and labels.csv (where there is one) say of it."""
    name = f"_{lot}" if lot else ""
    with np.load(HERE / f"maps{name}.npz") as arrays:
        images = dict(zip(arrays["id"].tolist(), arrays["image"], strict=True))
    rows: dict[str, dict[str, str]] = {name: {} for name in images}
    for table in (HERE / f"maps{name}.csv", HERE / f"labels{name}.csv"):
        if table.is_file():
            with table.open() as file:
                for row in csv.DictReader(file):
                    rows[row["id"]] |= row
    return {name: (image, rows[name]) for name, image in images.items()}


def tile(
    image: NDArray[np.uint8], row: dict[str, str], title: str, colours: NDArray[np.uint8] = VIRIDIS
) -> Image.Image:
    """Draw one map with its title above and ticks at the first [SEP], each pixel as 3 x 3.

    On its right its first two columns stand again, wider: in long texts the left edge is one pixel wide.
    """
    pixels = np.repeat(np.repeat(colours[image], SCALE, axis=0), SCALE, axis=1)
    size = len(pixels)
    picture = Image.new("RGB", (size + 3 * MARGIN + 2 * EDGE, size + HEAD), "white")
    picture.paste(Image.fromarray(pixels), (0, HEAD))
    edge = np.repeat(np.repeat(colours[image[:, :2]], SCALE, axis=0), EDGE, axis=1)
    picture.paste(Image.fromarray(edge), (size + 2 * MARGIN, HEAD))
    pen = ImageDraw.Draw(picture)
    pen.text((2, 0), title, fill="black")
    length = int(row["length"])
    boundary = int(row["boundary"])
    if boundary < length - 1:
        place = round((boundary + 0.5) / length * size)
        pen.rectangle((place - 1, HEAD - 5, place, HEAD - 1), fill="red")
        pen.rectangle((size, HEAD + place - 1, size + MARGIN, HEAD + place), fill="red")
    return picture


def sheet(
    maps: Maps, names: list[str], path: Path, columns: int = COLUMNS, titles: str = "", *, grey: bool = False
) -> None:
    colours = GREY if grey else VIRIDIS
    tiles = [tile(*maps[name], f"{name} {maps[name][1].get(titles, '')}", colours) for name in names]
    width, height = tiles[0].size
    picture = Image.new("RGB", (columns * width, -(-len(tiles) // columns) * height), "white")
    for number, part in enumerate(tiles):
        picture.paste(part, (number % columns * width, number // columns * height))
    picture.save(path, optimize=True)


def sheets(maps: Maps, ids: list[str], folder: Path, name: str, *, grey: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, len(ids), COLUMNS * ROWS)):
        sheet(maps, ids[start : start + COLUMNS * ROWS], folder / f"{name}_{number:02d}.png", grey=grey)


def turned(image: NDArray[np.uint8], row: dict[str, str]) -> tuple[NDArray[np.uint8], dict[str, str]]:
    """Turn a map by 180 degrees, which changes no class, and a pair's tick with it."""
    last = int(row["length"]) - 1
    boundary = int(row["boundary"])
    return image[::-1, ::-1], row | {"boundary": str(last - boundary if boundary < last else last)}


def second(maps: Maps, count: int, seed: int, folder: Path) -> None:
    """Write sheets for the second pass: other names, turned and in grey, so that a map is not recognised at once.

    key.csv says which is which, to be read afterwards.
    """
    chosen = np.random.default_rng(seed).permutation(list(maps))[:count].tolist()
    renamed = {f"s{number:03d}": turned(*maps[name]) for number, name in enumerate(chosen)}
    sheets(renamed, list(renamed), folder, "second", grey=True)
    key = "".join(f"{new},{old}\n" for new, old in zip(renamed, chosen, strict=True))
    (folder / "key.csv").write_text("name,id\n" + key)


def held_out(maps: Maps, low: int, high: int) -> Maps:
    rows = {name: row for name, (_, row) in maps.items() if row["split"] == "held-out"}
    return {name: maps[name] for name, row in rows.items() if low <= int(row["length"]) <= high}


def examples(maps: Maps, count: int = 6) -> None:
    """Write a strip of typical training maps of each class, for the guideline."""
    (HERE / "examples").mkdir(exist_ok=True)
    for label in sorted({row["label"] for _, row in maps.values()}):
        chosen = [name for name, (_, row) in maps.items() if row["label"] == label and row["split"] == "train"][:count]
        sheet(maps, chosen, HERE / "examples" / f"{label.replace('+', '_')}.png", count, "attention")


def main() -> None:
    parser = argparse.ArgumentParser(description="Contact sheets of attention maps.")
    parser.add_argument("folder", type=Path, nargs="?", help="where the sheets go")
    parser.add_argument(
        "--lot", default="", choices=("", "real", "fresh"), help="which maps: the first ones, or others"
    )
    parser.add_argument("--second", type=int, help="draw so many maps for a second pass")
    parser.add_argument("--held-out", type=int, nargs=2, help="only held-out maps of so many tokens, from and to")
    parser.add_argument("--seed", type=int, default=1, help="of that draw")
    parser.add_argument("--examples", action="store_true", help="the guideline's examples instead of sheets")
    options = parser.parse_args()
    if options.examples:
        return examples(read())
    if options.folder is None:
        parser.error("name the folder for the sheets")
    maps = read(options.lot)
    if options.held_out is not None:
        maps = held_out(maps, *options.held_out)
    if options.second is None:
        return sheets(maps, list(maps), options.folder, "first")
    return second(maps, options.second, options.seed, options.folder)


if __name__ == "__main__":
    main()
