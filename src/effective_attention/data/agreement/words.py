"""The grammar's words. Nouns and the verbs behind a sentence are (singular, plural); nothing else shows number."""

from __future__ import annotations


def _regular(words: str) -> tuple[tuple[str, str], ...]:
    return tuple((word, f"{word}s") for word in words.split())


def _given(pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple((one, many) for one, many in (pair.split("/") for pair in pairs.split()))


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split("|"))


PEOPLE = _regular(
    "teacher doctor farmer pilot lawyer student singer writer painter guard manager officer author actor driver boy "
    "girl king queen soldier sailor baker neighbor visitor gardener librarian plumber"
) + _given("man/men woman/women child/children lady/ladies secretary/secretaries thief/thieves waitress/waitresses")
THINGS = _regular(
    "key cabinet lamp table window door book picture letter car boat truck garden house tower bridge river mountain "
    "road ticket coat hat ring chair clock map song report plan idea problem question answer bird horse dog cat tree "
    "flower drawer pillow teapot"
) + _given(
    "box/boxes glass/glasses watch/watches city/cities story/stories knife/knives shelf/shelves mouse/mice tooth/teeth "
    "leaf/leaves"
)
NOUNS = PEOPLE + THINGS
DETERMINERS = _phrases("the | the | the | my | your | his | her | our | their")
ADJECTIVES = _phrases(
    "old | new | small | large | red | green | famous | young | strange | quiet | heavy | expensive | local | broken | "
    "beautiful | tall | clever | lonely | grumpy | shiny"
)
PREPOSITIONS = _phrases(
    "near | behind | beside | with | from | next to | in front of | across from | above | below | for | of"
)
TRANSITIVE = _phrases(
    "liked | found | saw | admired | needed | watched | remembered | followed | bought | lost | praised | forgot | "
    "ignored | described"
)
PARTICIPLES = _phrases("painted | chosen | brought | loved | hidden | praised | known | shown | mentioned | ignored")
INTRANSITIVE = _phrases("left | laughed | slept | waited | arrived | smiled | disappeared | sang | fell | agreed")
REPORTING = _phrases("said | thought | believed | knew | claimed | explained | noticed")
SUBORDINATORS = _phrases("when | after | because | although | before | while")
ADVERBS = _phrases("often | usually | still | always | probably | never | rarely | clearly | sometimes | hardly ever")
VERBS = _given("is/are was/were has/have")  # that follow a sentence: any subject may be, or have, anything
PHRASES = _phrases(
    "today , | in fact , | of course , | as a rule , | i think that | we hope that | it seems that | for once ,"
)
