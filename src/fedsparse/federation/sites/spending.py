"""How many answers a site has given, on which table and when: what budgets are held against."""

from collections import Counter, deque
from datetime import datetime, timedelta

MONTH = timedelta(days=30)


class Spending:
    """Answers given so far.

    Examples
    --------
    >>> from datetime import UTC
    >>> spending, may = Spending(), datetime(2026, 5, 1, tzinfo=UTC)
    >>> spending.add(may, "table 1", 40, judged=1)
    >>> spending.add(may + timedelta(days=20), "table 2", 2)
    >>> spending.on("table 1"), spending.in_month(may + timedelta(days=31))
    (40, 2)
    >>> spending.judged_on("table 1")
    1
    """

    def __init__(self) -> None:
        self._by_table: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()
        self._lately: deque[tuple[datetime, int]] = deque()

    def add(self, at: datetime, table: str, answers: int, judged: int = 0) -> None:
        """Count answers to one message, and how many of them judge a model."""
        self._by_table[table] += answers
        self._judged[table] += judged
        self._lately.append((at, answers))

    @property
    def tables(self) -> list[str]:
        """Those that were answered on."""
        return list(self._by_table)

    def on(self, table: str) -> int:
        """Answers on a table, ever."""
        return self._by_table[table]

    def judged_on(self, table: str) -> int:
        """Models judged on a table, ever."""
        return self._judged[table]

    def in_month(self, now: datetime) -> int:
        """Answers of the last 30 days, on whatever table."""
        while self._lately and self._lately[0][0] <= now - MONTH:
            self._lately.popleft()
        return sum(answers for _, answers in self._lately)
