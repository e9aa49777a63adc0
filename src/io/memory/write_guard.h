// Memory of this process that nobody writes until it is released: a write waits, and whoever holds
// the guard is told of it. Reads continue. In the hands of the kernel: userfaultfd in write-protect
// mode (Linux 5.7, admin-guide/mm/userfaultfd.rst), one entry changed a page and none copied.
//
// Only for private anonymous memory: what malloc gives, not files, shared or device memory. Writes
// by the kernel on our behalf (a read() into guarded memory) wait as well. That takes the right to
// handle the kernel's faults: CAP_SYS_PTRACE, vm.unprivileged_userfaultfd = 1 or /dev/userfaultfd;
// without it Create fails, since else such a call would fail with EFAULT in somebody's hands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::io {

constexpr size_t kGuardPage = 4096;

// Any thread may call any of these at the same time. All but Create allocate nothing and take no
// lock: whoever answers waiting writes must not wait for a writer himself.
class WriteGuard {
 public:
  // kUnavailable when the kernel has no such guard or gives us none.
  // All that is guarded at its end is released then.
  static Result<WriteGuard> Create();

  // From the return on no write to `pages` succeeds. False when part of it is not private anonymous
  // memory; some pages may be guarded then. Requires whole pages.
  bool Protect(std::span<const std::byte> pages);

  // Lets writes through again and wakes those that wait. What isn't mapped any more is passed over.
  void Release(std::span<const std::byte> pages);

  // The address of a write that began to wait, each told once; nothing when there is none.
  std::optional<uintptr_t> NextWrite();

 private:
  explicit WriteGuard(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace longhaul::io
