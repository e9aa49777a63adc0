"""Makes huge pages of the memory that forks of this process share.

What a fork costs, and the end of the worker, is in proportion to the number of pages: with PyTorch
18 ms each, with huge pages 3 ms.
"""

import ctypes
import errno

HUGE_PAGE = 2 << 20  # bytes
MADV_COLLAPSE = 25  # Linux 6.1 and newer

libc = ctypes.CDLL(None, use_errno=True)


def private_memory():
    """The addresses of the huge pages that this process's own memory could consist of."""
    with open("/proc/self/maps") as maps:
        parts = [line.split(None, 5) for line in maps]
    for part in parts:
        # The heap and what has no name: memory of malloc and of Python.
        if "rw" not in part[1] or len(part) > 5 and not part[5].startswith("[heap"):
            continue
        begin, end = (int(each, 16) for each in part[0].split("-"))
        yield from range(-(-begin // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE)


def collapse(page):
    """Makes one huge page of the pages at this address. Returns False if the kernel cannot."""
    failed = libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)
    return not failed or ctypes.get_errno() != errno.EINVAL
