"""Conversations: what asks, is told sums, asks again, and ends in a result.

A conversation is a generator that yields the asks of its next exchange and is sent their answers.
It touches no rows and depends on nothing but what it is told, so it can be replayed. Conversations
compose: ``yield from`` makes one after another, `together` holds several in lockstep.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from inspect import GEN_SUSPENDED, getgeneratorstate
from typing import TypeVar

from fedsparse.engines.engine import Ask, Engine
from fedsparse.requests import Answers

_Result = TypeVar("_Result")

Conversation = Generator[tuple[Ask, ...], Sequence[Answers], _Result]
"""Yields the asks of an exchange, is sent an answer for each, returns a result."""


def converse(engine: Engine, conversation: Conversation[_Result]) -> _Result:
    """Hold a conversation to its end: one message to every client an exchange.

    An error of the engine is raised inside the conversation, too, so that it can save what it has.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> engine = fs.LocalEngine(data, "squared")
    >>> def f_at(x):
    ...     (answers,) = yield (engine.ask(fs.Evaluate(x)),)
    ...     return answers.average("objective")
    >>> import numpy as np
    >>> converse(engine, f_at(np.array([3.0])))
    1.0
    >>> converse(engine, together([f_at(np.array([3.0])), f_at(np.array([4.0]))]))
    [1.0, 2.0]
    """
    answers: Sequence[Answers] | None = None
    try:
        while True:
            asks = conversation.send(answers) if answers is not None else next(conversation)
            answers = engine.exchange(asks)
    except StopIteration as end:
        result: _Result = end.value
        return result
    except BaseException as error:
        if getgeneratorstate(conversation) == GEN_SUSPENDED:  # it waits for what will not come
            with suppress(StopIteration):  # one that ends in peace does not undo the error
                conversation.throw(error)
        raise


def together(conversations: Iterable[Conversation[_Result]]) -> Conversation[list[_Result]]:
    """Several conversations in lockstep: what all of them ask next goes out as one exchange.

    None learns of another, so the results are those of one by one. An error is told to all.
    """
    under_way = dict(enumerate(conversations))
    results: dict[int, _Result] = {}
    asked: dict[int, tuple[Ask, ...]] = {}
    answers: dict[int, Sequence[Answers]] = {}
    while True:
        for place, conversation in list(under_way.items()):
            try:
                if place in answers:
                    asked[place] = conversation.send(answers[place])
                else:
                    asked[place] = next(conversation)
            except StopIteration as end:
                results[place] = end.value
                del under_way[place]
            except BaseException as error:
                del under_way[place]
                _tell_all(under_way.values(), error)
                raise
        if not under_way:
            return [results[place] for place in sorted(results)]
        try:
            told = yield tuple(ask for place in under_way for ask in asked[place])
        except BaseException as error:
            _tell_all(under_way.values(), error)
            raise
        begin = 0
        for place in under_way:
            end_ = begin + len(asked[place])
            answers[place] = told[begin:end_]
            begin = end_


def exchanges_of(conversation: Conversation[_Result]) -> Conversation[tuple[_Result, int]]:
    """A conversation's result, and how many exchanges it took."""
    count = 0
    answers: Sequence[Answers] | None = None
    while True:
        try:
            asks = conversation.send(answers) if answers is not None else next(conversation)
        except StopIteration as end:
            return end.value, count
        try:
            answers = yield asks
        except BaseException as error:
            with suppress(StopIteration):
                conversation.throw(error)
            raise
        count += 1


def _tell_all(conversations: Iterable[Conversation[_Result]], error: BaseException) -> None:
    """Raise an error inside all of them; one that cannot save what it has says so itself."""
    others = []
    for conversation in conversations:
        try:
            conversation.throw(error)
        except StopIteration:  # it ends in peace
            pass
        except BaseException as again:
            if again is not error:
                others.append(again)
    if others:
        raise others[0]
