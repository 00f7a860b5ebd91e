"""Bit fields: which bits of a descriptor mean what, how they are packed, and how they are read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from types import MappingProxyType
from typing import Any

from .errors import DescriptorError

__all__ = ["DecodedField", "Descriptor", "DescriptorFormat", "Field"]


@dataclass(frozen=True)
class Field:
    """One field: the bits `low` to `low + bits - 1`, and what their number stands for.

    Units:  the bits hold the meant number divided by `scale`; `unit` says in what it counts. A field with
            `names` is an enumeration: the bits hold the number beside the name.
    """

    name: str
    low: int
    bits: int
    meaning: str
    scale: int = 1
    unit: str = ""
    names: Mapping[str, int] | None = None

    @property
    def high(self) -> int:
        """The last bit that belongs to the field."""
        return self.low + self.bits - 1

    @property
    def mask(self) -> int:
        """The field's bits, where they stand in the descriptor."""
        return ((1 << self.bits) - 1) << self.low

    @property
    def largest(self) -> int:
        """The largest number that the bits hold."""
        return (1 << self.bits) - 1

    def bits_str(self) -> str:
        """The bits as CuTe's comments write them: from the first up to the one behind the last.

        >>> Field("start_address", 0, 14, "").bits_str()
        '[0,14)'
        """
        return f"[{self.low},{self.low + self.bits})"

    def stored(self, meant: int | str) -> int:
        """The number to store for a meaning: an enumeration's name, or a number in the field's unit.

        Errors: DescriptorError for a name that the enumeration lacks, or a number that is no multiple of the
                scale or is too large.
        """
        if isinstance(meant, str):
            return self._number_of(meant)
        number = _integer(self, meant)
        if self.names is not None and number not in self.names.values():
            raise DescriptorError(
                f"{self.name} = {number} stands for nothing; there are {self._choices()}",
                field=self.name,
                value=meant,
            )
        largest = self.largest * self.scale
        if not 0 <= number <= largest or number % self.scale:
            step = f" in steps of {self.scale}" if self.scale > 1 else ""
            raise DescriptorError(
                f"{self.name} = {number}{self._in_unit()} does not fit: bits {self.bits_str()} hold "
                f"0 to {largest}{step}",
                field=self.name,
                value=meant,
            )
        return number // self.scale

    def meant(self, stored: int) -> int | str:
        """The meaning of a stored number: its name in an enumeration, else the number in the field's unit.

        Errors: DescriptorError for a number that the enumeration does not have.
        """
        if self.names is None:
            return stored * self.scale
        name = self.name_of(stored)
        if name is None:
            raise DescriptorError(
                f"{self.name} holds {stored}, which stands for nothing; there are {self._choices()}",
                field=self.name,
                value=stored,
            )
        return name

    def name_of(self, stored: int) -> str | None:
        """The enumeration's name for a stored number; None without one."""
        return next((name for name, number in (self.names or {}).items() if number == stored), None)

    def _number_of(self, name: str) -> int:
        if self.names is None:
            raise DescriptorError(
                f"{self.name} is a number, not {name!r}", field=self.name, value=name, advice=f"{self.name}=0"
            )
        number = self.names.get(name)
        if number is None:
            raise DescriptorError(
                f"{self.name} has no value {name!r}; there are {self._choices()}", field=self.name, value=name
            )
        return number

    def _choices(self) -> str:
        return ", ".join(f"{name} ({number})" for name, number in (self.names or {}).items())

    def _in_unit(self) -> str:
        return f" {self.unit}" if self.unit else ""

    def to_snapshot(self) -> dict[str, Any]:
        """The field as JSON can hold it."""
        return {
            "name": self.name,
            "low": self.low,
            "bits": self.bits,
            "meaning": self.meaning,
            "scale": self.scale,
            "unit": self.unit,
            "names": dict(self.names) if self.names is not None else None,
        }


@dataclass(frozen=True)
class DecodedField:
    """A field of one descriptor: what its bits hold, and what that stands for in words."""

    field: Field
    stored: int

    @property
    def meant(self) -> str:
        """The value in words: a name, a number with its unit, or that the number stands for nothing."""
        if self.field.names is not None:
            return self.field.name_of(self.stored) or "stands for nothing"
        unit = f" {self.field.unit}" if self.field.unit else ""
        return f"{self.stored * self.field.scale}{unit}"

    @property
    def binary(self) -> str:
        """The bits, highest first, as many as the field has."""
        return f"{self.stored:0{self.field.bits}b}"

    def to_snapshot(self) -> dict[str, Any]:
        """The field with its value as JSON can hold it."""
        return self.field.to_snapshot() | {
            "stored": self.stored,
            "binary": self.binary,
            "meant": self.meant,
        }


@dataclass(frozen=True, repr=False)
class Descriptor:
    """The bits of one descriptor, read with its format: a table in text and on a page.

    `unused` are the bits that are set although no field has them.
    """

    format: DescriptorFormat
    value: int

    @property
    def fields(self) -> tuple[DecodedField, ...]:
        """Every field with its value, lowest bits first."""
        return tuple(
            DecodedField(field, (self.value >> field.low) & field.largest) for field in self.format.fields
        )

    @property
    def unused(self) -> int:
        """The bits that are set and belong to no field."""
        return self.value & ~self.format.used

    def __int__(self) -> int:
        return self.value

    def __str__(self) -> str:
        head = f"{self.format.name} 0x{self.value:0{self.format.bits // 4}x}"
        rows = [
            f"  {part.field.bits_str():8} {part.field.name:20} {part.stored:#6x}  {part.meant}"
            for part in self.fields
        ]
        if self.unused:
            rows.append(f"  unused bits that are set: {self.unused:#x}")
        return "\n".join([head, *rows])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = f"{self.format.name} <code>0x{self.value:0{self.format.bits // 4}x}</code>"
        cells = "".join(
            f"<tr><td>{escape(part.field.bits_str())}</td><td><code>{escape(part.field.name)}</code></td>"
            f"<td><code>{part.binary}</code></td><td>{escape(part.meant)}</td>"
            f"<td>{escape(part.field.meaning)}</td></tr>"
            for part in self.fields
        )
        titles = "".join(f"<th>{title}</th>" for title in ("bits", "field", "holds", "stands for", "meaning"))
        unused = f"<p>Unused bits that are set: <code>{self.unused:#x}</code></p>" if self.unused else ""
        return (
            f"<div class='cute-descriptor'><p>{head}</p><table><thead><tr>{titles}</tr></thead>"
            f"<tbody>{cells}</tbody></table>{unused}</div>"
        )

    def to_snapshot(self) -> dict[str, Any]:
        """All of it as plain JSON; the value as text, since JavaScript's numbers end at 53 bits."""
        return {
            "format": self.format.name,
            "bits": self.format.bits,
            "source": self.format.source,
            "value": f"0x{self.value:0{self.format.bits // 4}x}",
            "unused": f"{self.unused:#x}",
            "fields": [part.to_snapshot() for part in self.fields],
        }


@dataclass(frozen=True)
class DescriptorFormat:
    """The fields of one kind of descriptor.

    `pack` and `unpack` speak of what the bits hold, as the members of CuTe's struct do; `encode` and `decode`
    of what that stands for: bytes, elements, names.
    Law: `pack(**unpack(x)) = x` and `encode(**decode(x)) = x` wherever these do not refuse `x`.
    """

    name: str
    bits: int
    fields: tuple[Field, ...]
    source: str

    def field(self, name: str) -> Field:
        """The field of that name.

        Errors: DescriptorError, with the names that there are.
        """
        for field in self.fields:
            if field.name == name:
                return field
        raise DescriptorError(
            f"{self.name} has no field {name!r}; it has {', '.join(field.name for field in self.fields)}",
            field=name,
        )

    @property
    def used(self) -> int:
        """All bits that belong to a field."""
        mask = 0
        for field in self.fields:
            mask |= field.mask
        return mask

    def pack(self, **stored: int) -> int:
        """Put numbers into their bits; fields that are not given hold 0.

        Errors: DescriptorError for a field that does not exist and a number that does not fit its bits. (C++
                drops the bits that do not fit.)

        >>> from cutecourse.descriptors import SMEM_SM100
        >>> hex(SMEM_SM100.pack(start_address=64, stride_byte_offset=64, version=1, layout_type=2))
        '0x4000404000000040'
        """
        value = 0
        for name, given in stored.items():
            field = self.field(name)
            number = _integer(field, given)
            if not 0 <= number <= field.largest:
                raise DescriptorError(
                    f"{name} = {number} does not fit: bits {field.bits_str()} hold 0 to {field.largest}",
                    field=name,
                    value=number,
                    advice=f"encode({name}={number}), if that is meant in {field.unit}" if field.unit else "",
                )
            value |= number << field.low
        return value

    def unpack(self, value: int) -> dict[str, int]:
        """The stored number of each field.

        Errors: DescriptorError for a number of more bits than the descriptor has, or unused bits set.

        >>> from cutecourse.descriptors import SMEM_SM100
        >>> SMEM_SM100.unpack(0x4000404000000040)["stride_byte_offset"]
        64
        """
        decoded = self.explain(value)
        if decoded.unused:
            raise DescriptorError(
                f"0x{value:x} has bits set that {self.name} does not use: {decoded.unused:#x}",
                value=value,
                advice="explain(value) reads the fields all the same",
            )
        return {part.field.name: part.stored for part in decoded.fields}

    def encode(self, **meant: int | str) -> int:
        """Put values into their bits, each in its field's unit or by its enumeration's name.

        Errors: DescriptorError: a field that does not exist, a name that the enumeration lacks, a number that
                is no multiple of the field's scale or is too large.

        >>> from cutecourse.descriptors import SMEM_SM100
        >>> hex(
        ...     SMEM_SM100.encode(
        ...         start_address=1024, stride_byte_offset=1024, version=1, layout_type="SWIZZLE_128B"
        ...     )
        ... )
        '0x4000404000000040'
        """
        return self.pack(**{name: self.field(name).stored(value) for name, value in meant.items()})

    def decode(self, value: int) -> dict[str, int | str]:
        """The meaning of each field, in its unit or by its enumeration's name.

        Errors: as `unpack`, and DescriptorError for a number that an enumeration does not have.

        >>> from cutecourse.descriptors import SMEM_SM100
        >>> SMEM_SM100.decode(0x4000404000000040)["layout_type"]
        'SWIZZLE_128B'
        """
        return {name: self.field(name).meant(number) for name, number in self.unpack(value).items()}

    def explain(self, value: int) -> Descriptor:
        """The descriptor as a table, whatever its bits: unused ones and unknown names are shown as such.

        Errors: DescriptorError for a number of more bits than the descriptor has.
        """
        if not 0 <= value < 1 << self.bits:
            raise DescriptorError(f"{self.name} has {self.bits} bits; {value} is no such number", value=value)
        return Descriptor(self, value)

    def with_names(self, **names: Mapping[str, int]) -> DescriptorFormat:
        """The same fields, some of them with another enumeration."""
        for name in names:
            self.field(name)
        fields = tuple(
            replace(field, names=MappingProxyType(dict(names[field.name]))) if field.name in names else field
            for field in self.fields
        )
        return replace(self, fields=fields)

    def to_snapshot(self) -> dict[str, Any]:
        """The format as JSON can hold it."""
        return {
            "format": self.name,
            "bits": self.bits,
            "source": self.source,
            "fields": [field.to_snapshot() for field in self.fields],
        }


def _integer(field: Field, value: object) -> int:
    if not isinstance(value, int):
        raise DescriptorError(f"{field.name} takes an integer, not {value!r}", field=field.name, value=value)
    return int(value)
