"""What changed between two JSON Schemas, and whether the newer one accepts all that the older one did.

The names and the rules are those of Confluent's registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing._registry.json_nodes import Node

Difference = tuple[str, str]
"""What changed, and where."""

STRICT = frozenset(
    [
        "ID_CHANGED",
        "DESCRIPTION_CHANGED",
        "TITLE_CHANGED",
        "DEFAULT_CHANGED",
        "SCHEMA_REMOVED",
        "TYPE_EXTENDED",
        "MAX_LENGTH_INCREASED",
        "MAX_LENGTH_REMOVED",
        "MIN_LENGTH_DECREASED",
        "MIN_LENGTH_REMOVED",
        "PATTERN_REMOVED",
        "MAXIMUM_INCREASED",
        "MAXIMUM_REMOVED",
        "MINIMUM_DECREASED",
        "MINIMUM_REMOVED",
        "EXCLUSIVE_MAXIMUM_INCREASED",
        "EXCLUSIVE_MAXIMUM_REMOVED",
        "EXCLUSIVE_MINIMUM_DECREASED",
        "EXCLUSIVE_MINIMUM_REMOVED",
        "MULTIPLE_OF_REDUCED",
        "MULTIPLE_OF_REMOVED",
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
        "REQUIRED_ATTRIBUTE_REMOVED",
        "DEPENDENCY_ARRAY_NARROWED",
        "DEPENDENCY_ARRAY_REMOVED",
        "DEPENDENCY_SCHEMA_REMOVED",
        "MAX_PROPERTIES_INCREASED",
        "MAX_PROPERTIES_REMOVED",
        "MIN_PROPERTIES_DECREASED",
        "MIN_PROPERTIES_REMOVED",
        "ADDITIONAL_PROPERTIES_ADDED",
        "ADDITIONAL_PROPERTIES_EXTENDED",
        "UNEVALUATED_PROPERTIES_ADDED",
        "UNEVALUATED_PROPERTIES_EXTENDED",
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "MAX_ITEMS_INCREASED",
        "MAX_ITEMS_REMOVED",
        "MIN_ITEMS_DECREASED",
        "MIN_ITEMS_REMOVED",
        "MAX_CONTAINS_INCREASED",
        "MAX_CONTAINS_REMOVED",
        "MIN_CONTAINS_DECREASED",
        "MIN_CONTAINS_REMOVED",
        "UNIQUE_ITEMS_REMOVED",
        "ADDITIONAL_ITEMS_ADDED",
        "ADDITIONAL_ITEMS_EXTENDED",
        "UNEVALUATED_ITEMS_ADDED",
        "UNEVALUATED_ITEMS_EXTENDED",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ENUM_ARRAY_EXTENDED",
        "COMBINED_TYPE_EXTENDED",
        "PRODUCT_TYPE_NARROWED",
        "SUM_TYPE_EXTENDED",
        "NOT_TYPE_NARROWED",
    ]
)
"""Changes that are compatible."""
LENIENT = STRICT | frozenset(
    [
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ]
)
"""Changes that are compatible under the policy `LENIENT`."""

_COMMON = {"$id": "ID", "title": "TITLE", "description": "DESCRIPTION", "default": "DEFAULT"}
# By keyword, the name of its changes.
_LIMITS = {
    "string": {"maxLength": "MAX_LENGTH", "minLength": "MIN_LENGTH"},
    "number": {
        "maximum": "MAXIMUM",
        "minimum": "MINIMUM",
        "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
        "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    },
    "array": {
        "maxItems": "MAX_ITEMS",
        "minItems": "MIN_ITEMS",
        "maxContains": "MAX_CONTAINS",
        "minContains": "MIN_CONTAINS",
    },
    "object": {"maxProperties": "MAX_PROPERTIES", "minProperties": "MIN_PROPERTIES"},
}


def compare(original: Node, update: Node, allowed: frozenset[str]) -> list[Difference]:
    """What changed, compatible changes too.

    Schemas that contain themselves are compared under the assumption that they are compatible, until what is found
    incompatible stays the same.
    """
    known: dict[tuple[int, int], list[Difference]] = {}
    while True:
        comparison = _Comparison(allowed, known)
        found = comparison.compare(original, update)
        incompatible = comparison.incompatible()
        if not comparison.assumed or incompatible.keys() == known.keys():
            return found
        known = incompatible


class _Comparison:
    def __init__(self, allowed: frozenset[str], known: dict[tuple[int, int], list[Difference]]) -> None:
        self._allowed, self._known = allowed, known
        self._found: dict[tuple[int, int], list[Difference] | None] = {}
        # Nodes whose ids are keys must stay: an id is taken again.
        self._kept: list[Node] = []
        self.assumed = False

    def incompatible(self) -> dict[tuple[int, int], list[Difference]]:
        return {pair: found for pair, found in self._found.items() if found and not self._is_compatible(found)}

    def _is_compatible(self, found: list[Difference]) -> bool:
        return all(kind in self._allowed for kind, _ in found)

    def compare(self, original: Node | None, update: Node | None) -> list[Difference]:
        """What changed; the paths begin at these schemas."""
        if original is None or update is None:
            if original is update:
                return []
            return [("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED", "")]
        original, update = original.resolved(), update.resolved()
        pair = id(original), id(update)
        if pair in self._found:
            found = self._found[pair]
            if found is None:
                if pair in self._known:
                    return self._known[pair]
                self.assumed = True
                return []
            return found
        self._kept += [original, update]
        self._found[pair] = None
        found = self._found[pair] = self._types(original, update)
        return found

    def _types(self, original: Node, update: Node) -> list[Difference]:
        unwrapped = self._unwrapped(original, update)
        if unwrapped is not None:
            return unwrapped
        if original.kind != update.kind:
            if original.kind == "false" or update.is_empty:
                return []
            if original.common.get("connect.type") == update.common.get("connect.type") == "bytes":
                return []
            return [("TYPE_CHANGED", "")]
        found = [
            (f"{name}_CHANGED", "")
            for keyword, name in _COMMON.items()
            if original.common.get(keyword) != update.common.get(keyword)
        ]
        for keyword, name in _LIMITS.get(original.kind, {}).items():
            found += _limit(name, f"/{keyword}", original.get(keyword), update.get(keyword))
        rules: dict[str, Callable[[Node, Node], list[Difference]]] = {
            "string": _strings,
            "number": _numbers,
            "enum": _enums,
            "const": _constants,
            "combined": self._combined,
            "not": self._negated,
            "object": self._objects,
            "array": self._arrays,
        }
        return found + (rules[original.kind](original, update) if original.kind in rules else [])

    def _unwrapped(  # noqa: C901 - the same rules in two directions
        self, original: Node, update: Node
    ) -> list[Difference] | None:
        """What changed between a schema and one of several that are combined; None if that does not decide it."""
        if original.kind != "combined" and update.kind == "combined":
            inner = update.get("schemas")
            if len(inner) == 1:
                found = self.compare(original, inner[0])
                return found if self._is_compatible(found) else None
            if update.get("criterion") == "allOf":
                return None
            for one in inner:
                if self._is_compatible(found := self.compare(original, one)):
                    return [*found, ("SUM_TYPE_EXTENDED", "")]
        elif original.kind == "combined" and update.kind != "combined":
            inner = original.get("schemas")
            if len(inner) == 1:
                found = self.compare(inner[0], update)
                return found if self._is_compatible(found) else None
            if original.get("criterion") != "allOf":
                return None
            for one in inner:
                if self._is_compatible(found := self.compare(one, update)):
                    return [*found, ("PRODUCT_TYPE_NARROWED", "")]
        return None

    def _combined(self, original: Node, update: Node) -> list[Difference]:
        before, after = original.get("criterion"), update.get("criterion")
        olds, news = _distinct(original.get("schemas")), _distinct(update.get("schemas"))
        single = len(original.get("schemas")) == 1, len(update.get("schemas")) == 1
        found = []
        if before != after:
            is_extended = (
                after == "anyOf" or all(single) or (single[0] and after == "oneOf") or (single[1] and before == "allOf")
            )
            if not is_extended:
                return [("COMBINED_TYPE_CHANGED", "")]
            found.append(("COMBINED_TYPE_EXTENDED", ""))
        if len(olds) < len(news):
            found.append(("PRODUCT_TYPE_EXTENDED" if after == "allOf" else "SUM_TYPE_EXTENDED", ""))
        elif len(olds) > len(news):
            found.append(("PRODUCT_TYPE_NARROWED" if before == "allOf" else "SUM_TYPE_NARROWED", ""))
        edges: dict[int, dict[int, list[Difference]]] = {}
        for index, old in enumerate(olds):
            for other, new in enumerate(news):
                inner = _below(f"/{before}/{index}", self.compare(old, new))
                if self._is_compatible(inner):
                    edges.setdefault(index, {})[other] = inner
        matched = _matching(edges)
        for new_index, old_index in matched.items():
            found += edges[old_index][new_index]
        if len(matched) < min(len(olds), len(news)):
            found.append(("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""))
        return found

    def _negated(self, original: Node, update: Node) -> list[Difference]:
        compatible = self._is_compatible(self.compare(update.get("not"), original.get("not")))
        return [("NOT_TYPE_NARROWED" if compatible else "NOT_TYPE_EXTENDED", "/not")]

    # Objects.

    def _objects(self, original: Node, update: Node) -> list[Difference]:
        olds, news = original.get("properties"), update.get("properties")
        found = []
        for name in [one for one in olds if one in news]:
            was, now = name in original.get("required"), name in update.get("required")
            path = f"/required/{name}"
            if was and not now:
                found.append(("REQUIRED_ATTRIBUTE_REMOVED", path))
            elif now and not was:
                has_default = "default" in news[name].common
                found.append((f"REQUIRED_ATTRIBUTE_{'WITH_DEFAULT_' if has_default else ''}ADDED", path))
        for name in [*olds, *(one for one in news if one not in olds)]:
            if name not in news:
                inner = self._removed("PROPERTY", olds[name], update, name)
            elif name not in olds:
                inner = self._added_property(name, original, update)
            else:
                inner = self.compare(olds[name], news[name])
            found += _below(f"/properties/{name}", inner)
        found += self._dependencies(original, update)
        found += _below("/additionalProperties", self._rest("ADDITIONAL_PROPERTIES", original, update))
        return found + _below("/unevaluatedProperties", self._unevaluated("UNEVALUATED_PROPERTIES", original, update))

    def _removed(self, what: str, old: Node, update: Node, name: str | None) -> list[Difference]:
        """A property or an item that the update does not have."""
        if _is_open(update):
            return [(f"{what}_REMOVED_FROM_OPEN_CONTENT_MODEL", "")]
        partial = _partial(update, name)
        if partial is None:
            is_false = old.kind == "false"
            return [(f"{what}_{'WITH_FALSE_' if is_false else ''}REMOVED_FROM_CLOSED_CONTENT_MODEL", "")]
        found = self.compare(old, partial)
        covered = "IS" if self._is_compatible(found) else "NOT"
        return [*found, (f"{what}_REMOVED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "")]

    def _covered(self, what: str, partial: Node, new: Node) -> list[Difference]:
        """A property or an item that the original allowed with a schema."""
        found = self.compare(partial, new)
        covered = "IS" if self._is_compatible(found) else "NOT"
        return [*found, (f"{what}_ADDED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "")]

    def _added_property(self, name: str, original: Node, update: Node) -> list[Difference]:
        new = update.get("properties")[name]
        is_open = _is_open(original)
        if is_open and new.is_empty:
            return [("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", "")]
        partial = None if is_open else _partial(original, name)
        found = [] if partial is None else self._covered("PROPERTY", partial, new)
        how = "OPTIONAL_PROPERTY"
        if name in update.get("required"):
            how = "REQUIRED_PROPERTY_WITH_DEFAULT" if "default" in new.common else "REQUIRED_PROPERTY"
        return [*found, (f"{how}_ADDED_TO_{'OPEN' if is_open else 'UNOPEN'}_CONTENT_MODEL", "")]

    def _dependencies(self, original: Node, update: Node) -> list[Difference]:
        found = []
        olds, news = original.get("needed"), update.get("needed")
        for name in sorted(olds.keys() | news.keys()):
            path = f"/dependencies/{name}"
            if name not in news:
                found.append(("DEPENDENCY_ARRAY_REMOVED", path))
            elif name not in olds:
                found.append(("DEPENDENCY_ARRAY_ADDED", path))
            elif olds[name] != news[name]:
                is_more, is_less = olds[name] <= news[name], news[name] <= olds[name]
                how = "EXTENDED" if is_more else "NARROWED" if is_less else "CHANGED"
                found.append((f"DEPENDENCY_ARRAY_{how}", path))
        olds, news = original.get("schemas"), update.get("schemas")
        for name in sorted(olds.keys() | news.keys()):
            path = f"/dependencies/{name}"
            if name not in news:
                found.append(("DEPENDENCY_SCHEMA_REMOVED", path))
            elif name not in olds:
                found.append(("DEPENDENCY_SCHEMA_ADDED", path))
            else:
                found += _below(path, self.compare(olds[name], news[name]))
        return found

    def _rest(self, what: str, original: Node, update: Node) -> list[Difference]:
        """Properties or items that are not listed."""
        if original.get("more") != update.get("more"):
            return [(f"{what}_{'ADDED' if update.get('more') else 'REMOVED'}", "")]
        old, new = original.get("rest"), update.get("rest")
        if (old is None) != (new is None):
            return [(f"{what}_{'NARROWED' if old is None else 'EXTENDED'}", "")]
        return self.compare(old, new)

    def _unevaluated(self, what: str, original: Node, update: Node) -> list[Difference]:
        old, new = original.get("unevaluated"), update.get("unevaluated")
        if old is None and new is None:
            return []
        was_closed, is_closed = old is not None and old.kind == "false", new is not None and new.kind == "false"
        was_open, is_open = old is None or old.is_empty, new is None or new.is_empty
        if was_closed != is_closed:
            return [(f"{what}_{'ADDED' if was_closed else 'REMOVED'}", "")]
        if old is None or new is None or was_open != is_open:
            return [(f"{what}_{'NARROWED' if old is None or (was_open and new is not None) else 'EXTENDED'}", "")]
        return self.compare(old, new)

    # Arrays.

    def _arrays(self, original: Node, update: Node) -> list[Difference]:
        found = _below("/items", self.compare(original.get("items"), update.get("items")))
        olds, news = original.get("first"), update.get("first")
        for index in range(max(len(olds), len(news))):
            if index >= len(news):
                inner = self._removed("ITEM", olds[index], update, None)
            elif index >= len(olds):
                inner = self._added_item(original, news[index])
            else:
                inner = self.compare(olds[index], news[index])
            found += _below(f"/items/{index}", inner)
        found += _below("/additionalItems", self._rest("ADDITIONAL_ITEMS", original, update))
        found += _below("/unevaluatedItems", self._unevaluated("UNEVALUATED_ITEMS", original, update))
        if original.get("uniqueItems") != update.get("uniqueItems"):
            found.append((f"UNIQUE_ITEMS_{'REMOVED' if original.get('uniqueItems') else 'ADDED'}", "/uniqueItems"))
        return found

    def _added_item(self, original: Node, new: Node) -> list[Difference]:
        if _is_open(original):
            return [(f"ITEM_{'WITH_EMPTY_SCHEMA_' if new.is_empty else ''}ADDED_TO_OPEN_CONTENT_MODEL", "")]
        partial = _partial(original, None)
        return [("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", "")] if partial is None else self._covered("ITEM", partial, new)


def _is_open(node: Node) -> bool:
    """Whether properties or items that are not listed may be anything."""
    unevaluated = node.get("unevaluated")
    is_plain = node.get("more") and node.get("rest") is None and not node.get("patternProperties")
    return bool(is_plain) and (unevaluated is None or unevaluated.is_empty)


def _partial(node: Node, name: str | None) -> Node | None:
    """The schema of a property or an item that is not listed, if there is one."""
    if name is not None:
        for pattern, schema in node.get("patternProperties").items():
            if re.search(pattern, name):
                found: Node = schema
                return found
    rest: Node | None = node.get("rest")
    unevaluated: Node | None = node.get("unevaluated")
    if rest is None and node.get("more") and unevaluated is not None:
        return None if unevaluated.is_empty or unevaluated.kind == "false" else unevaluated
    return rest


def _below(path: str, found: list[Difference]) -> list[Difference]:
    return [(kind, f"{path}{inner}") for kind, inner in found]


def _limit(name: str, path: str, old: Any, new: Any) -> list[Difference]:
    if old == new:
        return []
    if old is None or new is None:
        return [(f"{name}_{'ADDED' if old is None else 'REMOVED'}", path)]
    return [(f"{name}_{'INCREASED' if old < new else 'DECREASED'}", path)]


def _strings(original: Node, update: Node) -> list[Difference]:
    old, new = original.get("pattern"), update.get("pattern")
    if old == new:
        return []
    return [(f"PATTERN_{'ADDED' if old is None else 'REMOVED' if new is None else 'CHANGED'}", "/pattern")]


def _numbers(original: Node, update: Node) -> list[Difference]:
    found = []
    given = original.get("multipleOf"), update.get("multipleOf")
    old, new = (None if one is None else Decimal(str(one)) for one in given)
    if old != new:
        if old is None or new is None:
            how = "ADDED" if old is None else "REMOVED"
        elif old and new % old == 0:
            how = "EXPANDED"
        else:
            how = "REDUCED" if new and old % new == 0 else "CHANGED"
        found.append((f"MULTIPLE_OF_{how}", "/multipleOf"))
    if original.get("integer") != update.get("integer"):
        found.append((f"TYPE_{'EXTENDED' if original.get('integer') else 'NARROWED'}", ""))
    return found


def _enums(original: Node, update: Node) -> list[Difference]:
    old, new = set(original.get("enum")), set(update.get("enum"))
    if old == new:
        return []
    return [(f"ENUM_ARRAY_{'EXTENDED' if old <= new else 'NARROWED' if new <= old else 'CHANGED'}", "/enum")]


def _constants(original: Node, update: Node) -> list[Difference]:
    return [] if original.get("const") == update.get("const") else [("ENUM_ARRAY_CHANGED", "/const")]


def _distinct(nodes: list[Node]) -> list[Node]:
    return list({node.signature(): node for node in nodes}.values())


def _matching(edges: dict[int, dict[int, list[Difference]]]) -> dict[int, int]:
    """A matching of the most pairs, each right end with its left one, by augmenting paths."""
    matched: dict[int, int] = {}

    def place(left: int, seen: set[int]) -> bool:
        for right in edges[left]:
            if right in seen:
                continue
            seen.add(right)
            if right not in matched or place(matched[right], seen):
                matched[right] = left
                return True
        return False

    for left in edges:
        place(left, set())
    return matched


# By the kinds of changes that a text describes; the first that fits counts.
_SCHEMA = "at path 'PATH' in the %s schema"
_MISSING = "at path 'PATH' which is missing in the %s schema"
_NOT_COVERED = "is not covered by its partially open content model"
_TEXTS = (
    (
        r"(?!.*(UNOPEN|PARTIALLY_OPEN)).*_ADDED_TO_OPEN_CONTENT_MODEL",
        f"The %s schema has an open content model and has a property or item {_MISSING}",
    ),
    (
        r".*_ADDED_TO_UNOPEN_CONTENT_MODEL",
        f"The %s schema has an unopen content model and has a required property {_MISSING}",
    ),
    (
        r".*_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "The %s has a closed content model and is missing a property or item present at path 'PATH' in the %s schema",
    ),
    (
        r".*_REMOVED_NOT_COVERED_.*",
        f"A property or item is missing in the %s schema but present {_SCHEMA} and {_NOT_COVERED}",
    ),
    (
        r".*_ADDED_NOT_COVERED_.*",
        f"The %s schema has a property or item {_MISSING} and {_NOT_COVERED}",
    ),
    (
        r"(PATTERN|MULTIPLE_OF|DEPENDENCY_ARRAY)_CHANGED",
        "The value at path 'PATH' is different between the %s and %s schema",
    ),
    (r"TYPE_.*|.*_CHANGED", "A type at path 'PATH' is different between the %s schema and the %s schema"),
    (r".*_(INCREASED|EXPANDED)", f"The value {_SCHEMA} is more than its value in the %s schema"),
    (r".*_DECREASED", f"The value {_SCHEMA} is less than its value in the %s schema"),
    (r".*_NARROWED", "An array or combined type at path 'PATH' has fewer elements in the %s schema than the %s schema"),
    (r".*_EXTENDED", "An array or combined type at path 'PATH' has more elements in the %s schema than the %s schema"),
    (r".*_(ADDED|REMOVED)", f"The keyword {_SCHEMA} is not present in the %s schema"),
)


def described(kind: str, path: str) -> str:
    """An incompatible change, as the registry reports it."""
    text = next((text for pattern, text in _TEXTS if re.fullmatch(pattern, kind)), "")
    return f'{{errorType:"{kind}", description:"{text.replace("PATH", "#" + path)}"}}'
