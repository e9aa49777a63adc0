"""Runs the program in a worker, as `python3 PROGRAM` would.
"""

import builtins
import importlib.machinery
import json
import os
import sys
import time
import traceback


def own_frames_removed(trace):
    """The trace of an error of the program, as Python would show it."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def write_error_file(error):
    """Writes the error and its time, as torch.distributed.elastic's @record does, unless that has.

    The other workers fail as soon as they lose the connection to this one, and may end before it.
    The time shows which error was first."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    text = traceback.format_exception_only(type(error), error)[-1].strip()
    content = {"message": {"message": text, "extraInfo": {"timestamp": "%.6f" % time.time()}}}
    try:
        with open(path, "x") as file:
            json.dump(content, file)
    except OSError:
        pass


def run_script(path, main_names):
    """As `python3 PATH`."""
    if sys.version_info >= (3, 9):
        path = os.path.abspath(path)
    main_names.clear()
    main_names.update({"__name__": "__main__", "__file__": path, "__builtins__": builtins,
                       "__loader__": importlib.machinery.SourceFileLoader("__main__", path),
                       "__spec__": None, "__package__": None, "__doc__": None,
                       "__cached__": None, "__annotations__": {}})
    with open(path, "rb") as file:
        text = file.read()
    exec(compile(text, path, "exec", dont_inherit=True), main_names)


def run_program(words, interpreter, main_names):
    """`words` are those after the interpreter and its options: -m MODULE ..., or a script."""
    sys.orig_argv = interpreter + words
    try:
        if words[0] == "-m":
            import runpy
            sys.argv = words[1:]
            runpy._run_module_as_main(words[1], alter_argv=True)
        else:
            sys.argv = words
            run_script(words[0], main_names)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        write_error_file(error)
        error = error.with_traceback(own_frames_removed(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
