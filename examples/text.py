"""Which words tell the topic? Ten newsrooms find 16 of them, and no story leaves its newsroom.

    python examples/text.py

Stories are those of RCV1 if the folder that FEDSPARSE_DATA names holds the file (see
`fedsparse.research.datasets.load_rcv1`); its words are numbers. Without it, stories are made up.
Nothing is downloaded.
"""

import os
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split

import fedsparse as fs

WORDS = 16
NEWSROOMS = 10
RCV1_FILES = ("rcv1_train.binary.bz2", "rcv1_train.binary", "rcv1v2_subsets_union.binary.bz2")
SPORT = ("goal", "match", "coach", "league", "striker", "stadium", "medal", "trophy")
BUSINESS = ("profit", "shares", "bank", "merger", "market", "dividend", "tariff", "loan")


def stories():
    """A sparse matrix with a row per story, topics, the vocabulary, and a title."""
    folder = Path(os.environ.get("FEDSPARSE_DATA") or "nowhere")
    if any((folder / "rcv1" / name).exists() for name in RCV1_FILES):
        rcv1 = fs.datasets.load_rcv1()
        topics = np.where(rcv1.targets > 0, "business", "other")
        return rcv1.features, topics, [f"word {n}" for n in range(1, rcv1.width + 1)], rcv1.title
    return made_up_stories(count=4000, fillers=5000)


def made_up_stories(count, fillers):
    """Common words are common in both topics; each topic has some words of its own."""
    random = np.random.default_rng(0)
    vocabulary = [*SPORT, *BUSINESS, *(f"filler {n}" for n in range(1, fillers + 1))]
    shares = np.concatenate([np.full(16, 0.02), 1 / np.arange(2, fillers + 2)])
    topics = random.choice(["business", "sport"], count)
    foreign = {"sport": slice(8, 16), "business": slice(8)}
    rows = []
    for topic in topics:
        own = shares.copy()
        own[foreign[topic]] /= 4
        rows.append(sparse.csr_array(random.poisson(80 * own / own.sum()).astype(float)))
    features = TfidfTransformer().fit_transform(sparse.vstack(rows, format="csr"))
    return features, topics, vocabulary, "Made-up stories"


def main():
    """Print the words and how well they do."""
    features, topics, vocabulary, title = stories()
    newsrooms = np.random.default_rng(1).integers(0, NEWSROOMS, topics.size)
    learn, judge = train_test_split(np.arange(topics.size), random_state=0)
    model = fs.FedSparseClassifier(sparsity=WORDS)
    model.fit(features[learn], topics[learn], sites=newsrooms[learn])

    accuracy = model.score(features[judge], topics[judge])
    guess = np.unique(topics[judge], return_counts=True)[1].max() / judge.size
    last = model.history_.row(-1, named=True)
    sent = (last["bytes_down"] + last["bytes_up"]) / NEWSROOMS / 1000
    print(f"{title}: {topics.size:,} stories, {len(vocabulary):,} words, {NEWSROOMS} newsrooms")
    print(f"Accuracy on stories held out: {accuracy:.1%} (always guessing the same: {guess:.1%})")
    print(f"Messages: {sent:,.0f} kB to and from each newsroom, in {model.n_iter_} rounds")
    print(f"\n{'word':<14}{'coefficient':>12}  speaks for")
    for place in sorted(model.support_, key=lambda place: -abs(model.coef_[0, place])):
        coefficient = model.coef_[0, place]
        print(
            f"{vocabulary[place]:<14}{coefficient:>12.2f}  {model.classes_[int(coefficient > 0)]}"
        )


if __name__ == "__main__":
    main()
