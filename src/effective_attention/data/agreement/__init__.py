"""Subject-verb agreement: given the words before a verb, will it be singular or plural?

``grammar`` writes sentences (``data=sample``), ``linzen`` reads the files of Linzen et al. 2016 (``data=local``).

Datasheet of the generated sentences (seed 0: 20 000 to train on, 2 000 to validate, 4 000 to test):

* **Made by** ``grammar.py`` and ``words.py``, both written for this project: 86 nouns with both numbers (80 of them one
  WordPiece in both, six with forms of two or three), no real text. All nouns and constructions occur in all splits; no
  sentence is in two.
* **Size**: 15 words on average (at most 44), 18 tokens (at most 47). Between subject and verb stand on average 3, 7,
  11, 15 and 19 words for 0 to 4 attractors, at most 31.
* **Balance**: every hundred sentences, and so every split, has 50 of each number, and of each number 15, 15, 10, 6 and
  4 with 0, 1, 2, 3 and 4 attractors. In 67 % the first noun is not the subject.
* **Gold positions**: the subject and each attractor, by their characters (``Examples.marks``).
* **Verbs**: sentences end before theirs; to ask a language model for it (``head=verb``) each has one of *is/are*,
  *was/were* and *has/have*, chosen by a checksum of its text.

What a model could exploit, as accuracy on the test split (chance is 0.500):

=============================================================  =====  ===============
rule                                                           all    with attractors
=============================================================  =====  ===============
the number of the first noun                                   0.668  0.672
the number of the last noun                                    0.457  0.224
the number most nouns have (a tie counts half)                 0.588  0.452
the first noun after the last of *, that and but*              0.574  0.391
the first noun after the first of *, that and but*             0.837  0.790
logistic regression on words (on words and pairs of them)      0.644  0.562
                                                               0.673  0.628
=============================================================  =====  ===============

Use: to test explanations where the right answer is known. It is not English as it is spoken: meanings are left to
chance (*the rings that ignored the managers*), and what is learnt from 86 nouns does not carry over to real text.
"""
