"""The examples of the README, run."""

from __future__ import annotations

import re
from pathlib import Path

from .support import Case, until

README = Path(__file__).resolve().parent.parent / "README.md"


class Readme(Case):
    def test_every_example_runs(self) -> None:
        service = self.serve()
        examples = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
        self.assertGreaterEqual(len(examples), 3)
        for example in examples:
            code = example.replace("http://127.0.0.1:7117", service.url)
            worker = self.worker(code)
            until("ended", lambda: worker.poll() is not None)
            self.assertEqual(worker.returncode, 0, code)
