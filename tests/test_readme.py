"""What the README shows must run and say what it claims."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_find_the_features_they_say(capsys):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    found = ("[ 4 11]", "[  3  14 159]")
    for example, support in zip(examples, found, strict=True):
        exec(compile(example, str(README), "exec"), {})
        assert capsys.readouterr().out.startswith(support)


def test_every_linked_file_exists():
    links = re.findall(r"\]\(([^)#]+)", README.read_text())
    missing = [link for link in links if not (README.parent / link).exists()]
    assert not missing
