"""A file that some processes can read, and those that come later cannot."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class VanishingFile:
    """A file that can be read so many times: the first readers get its text, and the next one finds no file.

    What the readers open are named pipes, so each of them is known before it gets the end of the text.
    """

    def __init__(self, path: Path, text: str, times: int) -> None:
        self.path, self._text = path, text
        self._pipes = [path.with_name(f"{path.name}.{number}") for number in range(times)]
        for pipe in self._pipes:
            os.mkfifo(pipe)
        self._pipes.pop(0).rename(path)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            with self.path.open("w") as reader:  # which waits for one
                if self._pipes:
                    self._pipes.pop(0).rename(self.path)
                else:
                    self.path.unlink()
                reader.write(self._text)
            if not self.path.exists():
                return
