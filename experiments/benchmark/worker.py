"""One side of a comparison: a process of its own, which is asked by lines and answers by lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


class Worker:
    """The process of one side: a module with its arguments, which answers questions in lines."""

    def __init__(
        self, side: str, module: Sequence[str], environment: Mapping[str, str], cores: set[int]
    ):
        self.side = side
        self.process = subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            text=True,
        )
        assert self.process.stdin and self.process.stdout
        self.questions, self.answers = self.process.stdin, self.process.stdout
        os.sched_setaffinity(self.process.pid, cores)
        self.facts: dict[str, Any] = json.loads(self._answer())

    def turn(self, steps: int) -> tuple[float, float]:
        """Makes that many steps: (milliseconds of wall time, of CPU time) a step."""
        wall, cpu = self.ask("step", str(steps)).split()
        return 1e3 * float(wall) / steps, 1e3 * float(cpu) / steps

    def ask(self, *words: str) -> str:
        """The answer to a line of these words."""
        print(*words, file=self.questions, flush=True)
        return self._answer()

    def _answer(self) -> str:
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"{self.side} ended with code {self.process.wait()}; see above")
        return line

    def close(self) -> None:
        self.questions.close()
        self.process.wait()
        self.answers.close()
