"""What a part of the measurement found, and which promises it kept."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Section:
    """A table, and promises."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    promises: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether all promises were."""
        return all(is_kept for _, is_kept in self.promises)

    def promise(self, text: str, *, is_kept: bool) -> None:
        """Say what was promised, with what was found, and whether that is so."""
        self.promises.append((text, is_kept))

    def text(self) -> str:
        """Return all of it."""
        table = [self.header, *self.rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(self.header))]
        lines = [self.title, ""]
        for row in table:
            first, *others = zip(row, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
            lines.append("  " + "  ".join(cells))
        lines += ["", *(f"  {note}" for note in self.notes)]
        lines += [f"  {'kept' if is_kept else 'BROKEN'}: {text}" for text, is_kept in self.promises]
        return "\n".join([*lines, ""])
