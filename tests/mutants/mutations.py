"""The small changes that can be made to a module.  Pure: source in, mutations out.

Left out is what no test should pin: words for people (messages, ``__repr__``), how far a progress
bar moves, how much memory a cached object is said to take (``nbytes``), and what is outside of
functions: constants of modules, where the sizes of blocks and caches are, and default arguments;
and with them which side of such a limit a number is on that equals it.  Nor is changed how long
something is thought to take (``_ns``, ``cost``), by which one of two ways to the same values is
chosen; whether a copy is made that need not be (``copy=False``); nor the 1 of ``max(n, 1)``, where
nothing is to be divided by 0, or a block has one row at least.

Neither is ``return False`` made ``return None``, which is as false, nor ``strict=`` of a ``zip``
changed, by which a programmer says that two lengths are the same, nor ``raise AssertionError``
and ``raise NotImplementedError``, by which he says that nobody gets there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Add(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
}
_SAYING = {"warn", "add_argument", "print"}
"""Calls that speak to people."""
_PROGRESS = {"progress", "progress.add", "self._progress.add", "bar.add", "add"}
"""Calls that move a progress bar."""
_OTHERS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),  # which are looked at for themselves
    *(ast.JoinedStr, ast.arguments),
)
_LEFT_OUT = re.compile("__repr__|__str__|nbytes|_cost|cost_bytes|.*_ns|_mix")
"""Functions for people, for a limit that nobody counts on to the byte, for a choice between two ways
to the same, and for hashes that are compared with their like alone."""

_LIMIT = re.compile("^_?[A-Z0-9_]*(MOST|FEW|MANY|SMALL|BLOCK|SECONDS)")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one line of a file."""

    path: str
    """The file, relative to the top of the project."""
    line: int
    """Counted from 1."""
    before: str
    """The line as it is."""
    after: str
    """The line as it becomes."""
    function: str = ""
    """The function that the line is in: ``Class.method``."""

    @property
    def key(self) -> str:
        """What names it wherever the line may have moved to."""
        return f"{self.path}: {self.before.strip()} -> {self.after.strip()}"

    def apply(self, source: str) -> str:
        """Return the changed source."""
        lines = source.splitlines(keepends=True)
        lines[self.line - 1] = self.after + "\n"
        return "".join(lines)


def mutations(path: str, source: str) -> list[Mutation]:
    r"""Return every mutation of a module, in the order of its lines.

    Whether it `is_python` is left to be asked, as that takes long for all of them.

    Examples
    --------
    >>> for one in mutations("x.py", "def f(a):\n    return a < 1\n"):
    ...     print(one.after.strip())
    return None
    return a <= 1
    return a < 2
    """
    lines = source.splitlines()
    found: dict[str, Mutation] = {}
    for function, node, new in _changes(ast.parse(source)):
        if node.lineno != node.end_lineno:
            continue
        before = lines[node.lineno - 1]
        raw = before.encode()
        after = raw[: node.col_offset] + new.encode() + raw[node.end_col_offset :]
        mutation = Mutation(path, node.lineno, before, after.decode(), function)
        if after != raw:
            found.setdefault(f"{node.lineno}:{mutation.after}", mutation)
    return sorted(found.values(), key=lambda one: one.line)


def is_python(source: str) -> bool:
    """Return whether a changed module can be compiled; it nearly always can."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield the name of a function, a node in it, and what it is replaced by."""
    todo: list[tuple[str, ast.AST]] = [("", tree)]
    while todo:
        name, node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}".lstrip(".")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body if not _LEFT_OUT.fullmatch(node.name) else ():
                yield from ((name, changed, new) for changed, new in _within(statement))
        todo += [(name, child) for child in ast.iter_child_nodes(node)]


def _within(root: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield the changes in a statement, leaving functions within it and annotations alone."""
    todo: list[ast.AST] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, _OTHERS):
            continue
        if isinstance(node, ast.AnnAssign):
            todo += [node.value] if node.value is not None else []
            continue
        if isinstance(node, ast.Raise):  # the words of an error are not tested to the letter
            if not _is_assertion(node):
                yield node, "pass"
            continue
        if isinstance(node, ast.Call | ast.Expr) and _is_left_out(node):
            continue
        yield from _of_node(node)
        if isinstance(node, ast.keyword) and (
            node.arg == "strict" or ast.unparse(node) == "copy=False"
        ):
            continue
        called = _name_of(node.func) if isinstance(node, ast.Call) else ""
        todo += [
            child
            for child in ast.iter_child_nodes(node)
            if not (called == "reshape" and isinstance(child, ast.UnaryOp))  # any negative is -1
            and not (called == "max" and ast.unparse(child) == "1")
        ]


def _is_at_limit(node: ast.Compare, op: ast.cmpop) -> bool:
    """Return whether a number is compared with a limit that is a constant of a module."""
    names = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and any(map(_LIMIT.search, names))


def _is_assertion(node: ast.Raise) -> bool:
    """Return whether an error says that nobody gets here."""
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id in ("AssertionError", "NotImplementedError")


def _is_left_out(node: ast.Call | ast.Expr) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call):
        return False
    return _name_of(call.func) in _SAYING or ast.unparse(call.func) in _PROGRESS


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _of_node(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            if not isinstance(node.test, ast.UnaryOp | ast.Compare):
                yield node.test, f"(not ({ast.unparse(node.test)}))"
        case ast.Return(value=ast.expr() as value):
            is_nothing = isinstance(value, ast.Constant) and (
                value.value is None or value.value is False
            )
            if not is_nothing:
                yield node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"
        case ast.expr():
            yield from _of_expression(node)


def _of_expression(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS and not _is_at_limit(node, op):
            changed = ast.Compare(node.left, [_COMPARISONS[type(op)]], node.comparators)
            yield node, ast.unparse(changed)
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            yield node, f"({ast.unparse(ast.BinOp(node.left, _OPERATORS[type(op)], node.right))})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(flag)):
            yield node, str(not flag)
        case ast.Constant(value=int(number)):
            yield node, str(number + 1)
