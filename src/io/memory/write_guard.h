// Write-protects memory of this process until it is released: a write blocks, and the guard's
// holder can read its address. Reads continue. The kernel does this by userfaultfd in write-protect
// mode (Linux 5.7, admin-guide/mm/userfaultfd.rst): one changed entry for each page, no copies.
//
// Only for private anonymous memory: the memory of malloc, not files, shared or device memory.
// Writes by the kernel for this process (a read() into guarded memory) block as well. That requires
// the right to handle the kernel's faults: CAP_SYS_PTRACE, vm.unprivileged_userfaultfd = 1 or
// /dev/userfaultfd; without it Create fails, as such a call would else fail with EFAULT.
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
// lock: the thread that answers blocked writes must not itself wait for a writer.
class WriteGuard {
 public:
  // kUnavailable when the kernel has no such guard or refuses it. The destructor releases all
  // guarded memory.
  static Result<WriteGuard> Create();

  // After it returns, no write to `pages` succeeds. False when part of it is not private anonymous
  // memory; some pages may be guarded then. Requires whole pages.
  bool Protect(std::span<const std::byte> pages);

  // Permits writes again and wakes the blocked ones. Pages that are no longer mapped are skipped.
  void Release(std::span<const std::byte> pages);

  // The address of a write that began to block, each reported once; nothing when there is none.
  std::optional<uintptr_t> NextWrite();

 private:
  explicit WriteGuard(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace longhaul::io
