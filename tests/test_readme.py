"""What the README shows must run and say what it claims."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_finds_the_features_it_says(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    exec(compile(example, str(README), "exec"), {})
    assert capsys.readouterr().out.startswith("[  3  14 159]")


def test_every_linked_file_exists():
    links = re.findall(r"\]\(([^)#]+)", README.read_text())
    missing = [link for link in links if not (README.parent / link).exists()]
    assert not missing
