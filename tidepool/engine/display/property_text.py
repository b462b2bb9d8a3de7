"""Drawing property values and their differences, as ``pulumi preview --diff`` does.

A :class:`Pen` appends marked-up text (see :mod:`tidepool.engine.display.markup`) to a list. Layout facts:
Pulumi's ``pkg/backend/display/object_diff.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidepool.engine.display import difference, markup, texts, words
from tidepool.engine.display.difference import Change, Changes, K
from tidepool.engine.events import Op
from tidepool.engine.values import Archive, Asset, Properties, ResourceReference, Secret, Unknown, Value

# Unchanged lines that are shown around changed ones.
_CONTEXT_LINES = 2


@dataclass(frozen=True, slots=True)
class Pen:
    """A place to draw to, and the manner of drawing.

    ``indent`` counts steps of four blanks. With ``signs``, lines carry the sign of ``op``; ``truncate``
    cuts long texts.
    """

    out: list[str]
    indent: int
    op: Op = Op.SAME
    signs: bool = False
    truncate: bool = False
    show_secrets: bool = False

    def object(self, properties: Properties) -> None:
        width = max(map(len, properties), default=0)
        for key in sorted(properties):
            if not difference.is_internal_key(key):
                self.property(key, properties[key], width)

    def property(self, key: str, value: Value, width: int) -> None:
        """Draw one property, its key filled up to ``width``."""
        self._title(key, width)
        self.value(value)

    def changes(self, changes: Changes[str], include: Iterable[str] | None = None) -> None:
        """Draw what changed and what did not, or only the keys to ``include``."""
        keys = changes.keys()
        if include is not None:
            wanted = set(include)
            keys = [k for k in keys if k in wanted]
        width = max(map(len, keys), default=0)
        for key in keys:
            self.property_change(key, width, changes)

    def hidden(self, paths: Iterable[str]) -> None:
        """Draw the paths whose difference is not to be shown."""
        pen = replace(self, op=Op.UPDATE, signs=True)
        for path in paths:
            pen.line(f"{path} (hidden)\n")

    def property_change(self, key: str, width: int, changes: Changes[str]) -> None:
        draw_same = worth_drawing(changes.sames.get(key))
        self._member_change(key, changes, lambda pen: pen._title(key, width), draw_same)

    def value(self, value: Value) -> None:
        """Draw a value and end the line."""
        self._value(value)
        self.write("\n")

    # ---- one value

    def _value(self, value: Value) -> None:
        match value:
            case Secret() if self.show_secrets:
                self._value(value.element)
            case list():
                self._list(value)
            case dict():
                self._members(value)
            case Asset() | Archive():
                self._content(value)
            case ResourceReference():
                self.write("{\n")
                inner = replace(self, indent=self.indent + 1)
                for title, part in (
                    ("URN", value.urn),
                    ("ID", value.id),
                    ("PackageVersion", value.package_version),
                ):
                    inner.property(title, part, 3)
                self.line("}", signs=False)
            case _:
                self._primitive(value)

    def _primitive(self, value: Value) -> None:
        match value:
            case None:
                self.write("<null>")
            case bool():
                self.write("true" if value else "false")
            case int() | float():
                self.write(texts.number(value))
            case str():
                decoded = texts.structured(value)
                if decoded is not None:
                    self.write(f"({decoded[1]}) ")
                    self.value(decoded[0])
                else:
                    self.write(texts.quoted(texts.truncated(value) if self.truncate else value))
            case Unknown():
                self.write("[unknown]")
            case _:
                self.write("[secret]")

    def _list(self, items: list[Value]) -> None:
        if not items:
            self.write("[]")
            return
        self.write("[\n")
        inner = replace(self, indent=self.indent + 1)
        for i, item in enumerate(items):
            self.line(f"    [{i}]: ")
            inner.value(item)
        self.line("]", signs=False)

    def _members(self, members: Properties) -> None:
        if not members:
            self.write("{}")
            return
        self.write("{\n")
        replace(self, indent=self.indent + 1).object(members)
        self.line("}", signs=False)

    def _content(self, content: Asset | Archive) -> None:
        digest = content.hash[:7]
        if isinstance(content, Asset) and content.text is not None:
            self.write(f"asset(text:{digest}) {{\n")
            for line in content.text.split("\n"):
                self.line(f"    {line}\n", signs=False)
            self.line("}", signs=False)
        elif isinstance(content, Archive) and content.assets is not None:
            self.write(f"archive(assets:{digest}) {{\n")
            for name in sorted(content.assets):
                self.line(f'    "{name}": ')
                replace(self, indent=self.indent + 1).value(content.assets[name])
            self.line("}", signs=False)
        else:
            word = "asset" if isinstance(content, Asset) else "archive"
            kind, location = ("uri", content.uri) if content.path is None else ("file", content.path)
            self.write(f"{word}({kind}:{digest}) {{ {location} }}")

    # ---- one change

    def _member_change(self, key: K, changes: Changes[K], title: _Title, draw_same: bool) -> None:
        if key in changes.adds:
            self._one(Op.CREATE, changes.adds[key], title)
        elif key in changes.deletes:
            self._one(Op.DELETE, changes.deletes[key], title)
        elif key in changes.updates:
            self._change(title, changes.updates[key])
        elif draw_same:
            self._one(Op.SAME, changes.sames[key], title)

    def _one(self, op: Op, value: Value, title: _Title) -> None:
        pen = replace(self, op=op, signs=op is not Op.SAME)
        title(pen)
        pen.value(value)

    def _change(self, title: _Title, change: Change) -> None:
        pen = replace(self, op=Op.UPDATE, signs=True)
        if self.show_secrets and (isinstance(change.old, Secret) or isinstance(change.new, Secret)):
            inner = difference.of_values(_bare(change.old), _bare(change.new))
            if inner is not None:
                pen._change(title, inner)
                return
        if change.items is not None:
            pen._item_changes(title, change.items)
        elif change.members is not None:
            title(pen)
            pen.write("{\n")
            replace(pen, indent=pen.indent + 1).changes(change.members)
            pen.line("}\n", signs=False)
        else:
            pen._replacement(title, change.old, change.new)

    def _item_changes(self, title: _Title, items: Changes[int]) -> None:
        title(self)
        self.write("[\n")
        for i in items.keys():  # noqa: SIM118  # in order, of what happened to any of them

            def item_title(pen: Pen, i: int = i) -> None:
                replace(pen, indent=pen.indent - 1).line(f"[{i}]: ")

            replace(self, indent=self.indent + 2)._member_change(i, items, item_title, True)
        self.line("]\n", signs=False)

    def _replacement(self, title: _Title, old: Value, new: Value) -> None:
        draw_old, draw_new = worth_drawing(old), worth_drawing(new)
        if draw_old and draw_new:
            if isinstance(old, Archive) and isinstance(new, Archive) and _same_kind(old, new):
                self._content_change(title, old, new)
                return
            if _primitive(old) and _primitive(new):
                title(self)
                if isinstance(old, str) and isinstance(new, str):
                    self._text_change(old, new)
                else:
                    replace(self, op=Op.DELETE)._primitive(old)
                    self.write(" => ")
                    replace(self, op=Op.CREATE)._primitive(new)
                    self.write("\n")
                return
        # Of different kinds: the old one is gone, a new one came.
        if draw_old:
            self._one(Op.DELETE, old, title)
        if draw_new:
            self._one(Op.CREATE, new, title)

    def _content_change(self, title: _Title, old: Any, new: Any) -> None:
        """Draw an asset or archive whose file, address, text or members changed."""
        word = "asset" if isinstance(old, Asset) else "archive"
        change = _arrow(old.hash[:7], new.hash[:7])
        title(self)
        if isinstance(old, Asset) and old.text is not None:
            self.write(f"{word}(text:{change}) {{")
            replace(self, indent=self.indent + 1)._text_change(old.text, new.text)
            self.line("}\n", signs=False)
        elif old.path is not None:
            self.write(f"{word}(file:{change}) {{ {_arrow(old.path, new.path)} }}\n")
        elif old.uri is not None:
            self.write(f"{word}(uri:{change}) {{ {_arrow(old.uri, new.uri)} }}\n")
        else:
            self.write(f"{word}(assets:{change}) {{\n")
            replace(self, indent=self.indent + 1)._member_changes(old.assets, new.assets)
            self.line("}\n", signs=False)

    def _member_changes(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        names = sorted({*old, *new})
        width = max(map(len, names), default=0) + 2
        for name in names:

            def title(pen: Pen, name: str = name) -> None:
                pen._title(f'"{name}"', width)

            if name not in new:
                replace(self, indent=self.indent + 1)._one(Op.DELETE, old[name], title)
            elif name not in old:
                replace(self, indent=self.indent + 1)._one(Op.CREATE, new[name], title)
            elif type(before := old[name]) is not type(after := new[name]) or before.hash != after.hash:
                pen = replace(self, op=Op.UPDATE, signs=True)
                if isinstance(before, Asset) and isinstance(after, Asset) and _same_kind(before, after):
                    pen._content_change(title, before, after)
                else:
                    pen._replacement(title, before, after)

    def _text_change(self, old: str, new: str) -> None:
        before, after = texts.structured(old), texts.structured(new)
        if before is not None and after is not None:
            self._structured_change(old, new, before, after)
        elif "\n" in old or "\n" in new:
            self.write("\n")
            replace(self, indent=self.indent + 1)._line_runs(texts.by_line(old, new))
        else:
            self._character_runs(texts.by_character(old, new))

    def _structured_change(
        self, old: str, new: str, before: tuple[Value, str], after: tuple[Value, str]
    ) -> None:
        if difference.same(before[0], after[0]):
            # Only the notation changed.
            self._character_runs(texts.by_character(texts.quoted(old), texts.quoted(new)))
            return
        notation = before[1] if before[1] == after[1] else f"{before[1]} => {after[1]}"
        self.write(f"({notation}) ")
        change = difference.of_values(before[0], after[0])
        if change is None:
            replace(self, op=Op.SAME).value(before[0])
        else:
            self._change(lambda _: None, change)

    def _character_runs(self, runs: list[texts.Run]) -> None:
        for kind, op, end in (("delete", Op.DELETE, " => "), ("add", Op.CREATE, "\n")):
            self.write('"')
            for what, text in runs:
                if what in (kind, "same"):
                    replace(self, op=Op.SAME if what == "same" else op).write(texts.escaped(text))
            self.write('"')
            self.write(end)

    def _line_runs(self, runs: list[texts.Run]) -> None:
        ops = {"same": Op.SAME, "delete": Op.DELETE, "add": Op.CREATE}
        for position, (what, text) in enumerate(runs):
            pen = replace(self, op=ops[what], signs=what != "same")
            lines: list[str] = [line for line in text.split("\n") if line.strip()]
            if what == "same":
                lines = _context(lines, first=position == 0, last=position == len(runs) - 1)
            for line in lines:
                pen.line(line)
                self.out.append("\n")

    # ---- writing

    def _title(self, key: str, width: int) -> None:
        key = texts.truncated(key) if self.truncate else key
        self.line(f"{key:<{width}}: ")

    def line(self, text: str, signs: bool | None = None) -> None:
        """Begin a line at the indentation, with a sign where wanted."""
        blanks = "    " * self.indent
        if (self.signs if signs is None else signs) and blanks:
            blanks = blanks[:-2] + words.sign(self.op)
        self.write(blanks + text)

    def write(self, text: str) -> None:
        self.out.append(f"{words.color(self.op)}{text}{markup.RESET}")


_Title = Callable[[Pen], None]


def worth_drawing(value: Value) -> bool:
    """Return whether a value tells anything: null and what is empty do not."""
    return value is not None and not (value.__class__ in (str, list, dict) and not value)


def _primitive(value: Value) -> bool:
    return value is None or isinstance(value, str | int | float | Unknown | Secret)


def _bare(value: Value) -> Value:
    return value.element if isinstance(value, Secret) else value


def _same_kind(old: Any, new: Any) -> bool:
    """Return whether two assets or two archives are of one kind: both files, both addresses, ..."""
    kinds = ("text", "path", "uri") if isinstance(old, Asset) else ("assets", "path", "uri")
    return any(getattr(old, k) is not None and getattr(new, k) is not None for k in kinds)


def _arrow(old: str, new: str) -> str:
    return old if old == new else f"{old}->{new}"


def _context(lines: list[str], first: bool, last: bool) -> list[str]:
    """Shorten unchanged lines to those next to changed ones."""
    before = [] if first else lines[:_CONTEXT_LINES]
    after = [] if last and not first else lines[-_CONTEXT_LINES:]
    shortened = [*before, "...", *after]
    return shortened if len(shortened) < len(lines) else lines
