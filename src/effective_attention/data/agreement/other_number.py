"""The other number of a noun: *keys* of *key*, and *key* of *keys*.

English has no rule without exceptions, so a form counts only where it is in a list of pairs (the grammar's words, and
irregular nouns) or where the caller knows it as a word. Rare words that Linzen et al. replaced by their tag have the
other tag. Of a word that is no noun, such as *they* or *each*, and of one whose other form is not known, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from effective_attention.data.agreement.words import NOUNS

_IRREGULAR = (
    "person/people foot/feet goose/geese life/lives wife/wives half/halves wolf/wolves loaf/loaves analysis/analyses "
    "basis/bases crisis/crises thesis/theses phenomenon/phenomena criterion/criteria bacterium/bacteria "
    "policeman/policemen fisherman/fishermen gentleman/gentlemen hero/heroes potato/potatoes volcano/volcanoes"
)
_TAGS = (("NN", "NNS"), ("NNP", "NNPS"))
_PAIRS = (*NOUNS, *(tuple(pair.split("/")) for pair in _IRREGULAR.split()), *_TAGS)
_PLURAL_OF = {pair[0]: pair[1] for pair in _PAIRS}
_SINGULAR_OF = {pair[1]: pair[0] for pair in _PAIRS}
_NO_NOUNS = (
    "i you he she it we they this that these those who which what there here one each all some none any both many few "
    "most such his her its their my your our as is was has does series species"
)
_OTHER_WORDS = frozenset(_NO_NOUNS.split(" "))
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_VOWELS = "aeiou"


def other_number(word: str, *, plural: bool, known: Callable[[str], bool]) -> str | None:
    """Return the noun in its other number, or None where that is not known.

    Args:
        word: A noun, as it stands in the sentence; tags are in capitals.
        plural: Which number it has now.
        known: Tells whether a form is a word.

    >>> known = {"parties", "party", "classes", "class", "movie", "movies"}.__contains__
    >>> [other_number(word, plural=True, known=known) for word in ("parties", "classes", "movies", "men", "NNS")]
    ['party', 'class', 'movie', 'man', 'NN']
    >>> [other_number(word, plural=False, known=known) for word in ("party", "class", "movie", "it", "shelf")]
    ['parties', 'classes', 'movies', None, 'shelves']
    """
    listed = (_SINGULAR_OF if plural else _PLURAL_OF).get(word)
    if listed is not None:
        return listed
    if word in _OTHER_WORDS or not word.isalpha() or len(word) < 3:
        return None
    forms = _singulars(word) if plural else _plurals(word)
    return next((form for form in forms if known(form)), None)


def _plurals(word: str) -> Iterator[str]:
    """Yield the one regular plural."""
    if word.endswith("y") and word[-2] not in _VOWELS:
        yield f"{word[:-1]}ies"
    else:
        yield f"{word}es" if word.endswith(_SIBILANTS) else f"{word}s"


def _singulars(word: str) -> Iterator[str]:
    """Yield what the word may be the regular plural of, the likelier first: *movies* is no plural of *movy*."""
    if not word.endswith("s") or word.endswith("ss"):
        return
    if word.endswith("ies"):
        yield f"{word[:-3]}y"
    if word.endswith("es") and word[:-2].endswith(_SIBILANTS):
        yield word[:-2]
    yield word[:-1]
