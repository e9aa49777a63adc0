"""Reads the Containerfile: the instructions that Longhaul's own uses, and no others."""

import dataclasses
import json
import re
import shlex

from project import Failure


@dataclasses.dataclass
class Containerfile:
    """What the file states, in the words of the configuration of an OCI image."""

    base: str = ""
    copies: list = dataclasses.field(default_factory=list)  # pairs: pattern, folder in the image
    script: list = dataclasses.field(default_factory=list)  # shell commands, run as root
    config: dict = dataclasses.field(default_factory=dict)


def logical_lines(text):
    """The instructions, each with the number of its first line: no comments, no continuations."""
    pending, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        first = first if pending else number
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending.rstrip()


def environment(file):
    """The variables that ENV has set so far."""
    return dict(entry.split("=", 1) for entry in file.config.get("Env", []))


def apply(file, arguments, name, value):
    """Adds one instruction to `file`; raises KeyError for one that is not supported."""
    config = file.config
    if name == "ARG":
        key, _, default = value.partition("=")
        arguments.setdefault(key, default)
    elif name == "FROM":
        file.base = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found.group(1)], value)
    elif name == "COPY":
        pattern, folder = value.split()
        file.copies.append((pattern, folder))
    elif name == "RUN":
        file.script.append(value)
    elif name == "ENV":
        variables = environment(file)
        variables.update(word.split("=", 1) for word in shlex.split(value))
        config["Env"] = [f"{key}={variables[key]}" for key in sorted(variables)]
    elif name in ("EXPOSE", "VOLUME"):
        key = {"EXPOSE": "ExposedPorts", "VOLUME": "Volumes"}[name]
        config.setdefault(key, {}).update({word: {} for word in value.split()})
    elif name in ("ENTRYPOINT", "CMD"):
        config[name.capitalize()] = json.loads(value)
    else:
        key = {"WORKDIR": "WorkingDir", "USER": "User", "STOPSIGNAL": "StopSignal"}[name]
        config[key] = value


def parse(text, path="Containerfile", **arguments):
    """Parses the text; `arguments` override those of ARG. Raises Failure with the line."""
    file = Containerfile()
    for number, line in logical_lines(text):
        name, _, value = line.partition(" ")
        try:
            apply(file, arguments, name, value.strip())
        except (KeyError, ValueError):
            raise Failure(f"{path}:{number}: {name} {value.strip()[:40]}: tools/package does not "
                          "support this instruction") from None
    if not file.base:
        raise Failure(f"{path}: there is no FROM")
    return file
