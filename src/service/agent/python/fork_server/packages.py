"""Which packages a program imports: those that the fork server loads for all workers.
"""

import ast
import importlib.util
import os
import sys

MOST_FILES = 200  # of the program that are searched for imports

package_roots = [os.path.join(os.path.dirname(os.__file__), "")]  # others are installed packages


def is_package_path(path):
    """Whether a file belongs to Python or to an installed package."""
    parts = path.split(os.sep)
    installed = "site-packages" in parts or "dist-packages" in parts
    return installed or path.startswith(tuple(package_roots))


def find_spec(name):
    """The spec of a top-level module; None where there is none."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def file_of(spec):
    if spec is None or spec.origin in (None, "built-in", "frozen"):
        return None
    return spec.origin


def statements(body):
    """Those that run when a module is loaded."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, part, None) or [])
        for handler in getattr(node, "handlers", []):
            yield from statements(handler.body)


def imports_of(path):
    """The names of the modules that a file may import when it is loaded, in order."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    names = []
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def own_files_of(name, spec):
    """The files of the program that importing this module of its own may load."""
    files = [file_of(spec)] if file_of(spec) else []
    for folder in spec.submodule_search_locations or []:
        parts = name.split(".")[1:]
        for i in range(1, len(parts) + 1):
            inner = os.path.join(folder, *parts[:i])
            files += [inner + ".py", os.path.join(inner, "__init__.py")]
    return files


def packages_to_load(first):
    """The modules of packages that the program imports, directly or by files of its own."""
    found, seen, files = [], set(), [first]
    while files and len(seen) < MOST_FILES:
        path = files.pop(0)
        if path in seen:
            continue
        seen.add(path)
        for name in imports_of(path):
            spec = find_spec(name.split(".")[0])
            if spec is None:
                continue
            path_of = file_of(spec) or next(iter(spec.submodule_search_locations or []), "")
            if not path_of or is_package_path(path_of):
                found.append(name)
            else:
                files += own_files_of(name, spec)
    return list(dict.fromkeys(found))


def is_of_package(name):
    spec = find_spec(name.split(".")[0])
    path = spec and (file_of(spec) or next(iter(spec.submodule_search_locations or []), ""))
    return bool(path) and is_package_path(path)


def is_worth_loading(names):
    """Python's own modules load in no time."""
    standard = getattr(sys, "stdlib_module_names", ())
    tops = {name.split(".")[0] for name in names}
    return any(top not in standard and top not in sys.builtin_module_names for top in tops)


def folder_of_program(words):
    """What Python puts first into sys.path for the program."""
    if words[0] == "-m":
        return os.getcwd()
    return os.path.dirname(os.path.realpath(words[0]))


def first_file(words):
    """The file that the program begins with; None where it is not found."""
    if words[0] != "-m":
        return words[0]
    try:
        spec = importlib.util.find_spec(words[1])
        if spec is not None and spec.submodule_search_locations:
            spec = importlib.util.find_spec(words[1] + ".__main__")
    except (ImportError, ValueError):
        return None
    return file_of(spec)


def stamp_of_packages():
    """Changes when a package is installed, removed or replaced."""
    stamps = []
    for folder in sys.path:
        try:
            stamps.append((folder, os.stat(folder).st_mtime_ns))
        except OSError:
            continue
    return [each for each in stamps if is_package_path(os.path.join(each[0], ""))]
