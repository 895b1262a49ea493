"""What a person declares in a YAML file: read with one message for whatever is wrong with it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import SchemaError
from .faults import faults_text
from .yaml_text import parse_yaml, unfinished_lines

MAX_BYTES = 1 << 24  # of a file


class Declared(BaseModel):
    """A model that a mapping, a YAML text or a file declares; `called` names it in messages."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    called: ClassVar[str]

    @classmethod
    def from_dict(cls, content: object, where: str | None = None) -> Self:
        """What a mapping declares; `where` names it in messages. Raises SchemaError where it declares none."""
        where = where or cls.called
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise SchemaError(faults_text(error, content, where, cls)) from None
        except (ArithmeticError, RecursionError):
            raise SchemaError(f"{where}: a number out of any range, or values nested too deeply.") from None

    @classmethod
    def from_yaml(cls, text: str, where: str | None = None) -> Self:
        """What a YAML text declares; `where` names it in messages.

        Raises SchemaError for text that is not YAML, for unknown keys or kinds, and while a TODO is left.
        """
        where = where or cls.called
        if lines := unfinished_lines(text):
            more = f", and in {len(lines) - 1} more" if len(lines) > 1 else ""
            raise SchemaError(
                f"{where}, line {lines[0]}: a TODO is left{more}. Fill it in (or delete the file) and try again."
            )
        return cls.from_dict(parse_yaml(text, where), where)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """What the YAML file `path` declares. Raises SchemaError, as `from_yaml` does and for a file not to be read."""
        path = Path(path)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                raise SchemaError(f"The {cls.called} {path} is no file, or one of more than {MAX_BYTES} bytes.")
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise SchemaError(f"There is no {cls.called} {path}. Draft a {cls.called} first.") from None
        except (OSError, ValueError):
            raise SchemaError(f"The {cls.called} {path} cannot be read as UTF-8 text.") from None
        return cls.from_yaml(text, str(path))
