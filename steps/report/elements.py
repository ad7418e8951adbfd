"""SVG and HTML elements as escaped markup."""

from typing import Any

from markupsafe import Markup, escape


def element(name: str, *children: Any, **attributes: Any) -> Markup:
    """Returns one element; text and attribute values are escaped, `Markup` children are not.

    Args:
        name: e.g. "rect".
        children: text, markup, or None for nothing.
        attributes: "_" stands for "-", a trailing "_" is dropped (`class_`); None leaves an attribute out; floats are
            written to a tenth of a pixel.
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-") if key != "viewBox" else key, _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(child) for child in children if child is not None)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def join(parts: Any) -> Markup:
    """Returns markup and text one after the other."""
    return Markup("").join(escape(part) for part in parts)


def _plain(value: Any) -> Any:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
