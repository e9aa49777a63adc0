#include "io/memory/write_guard.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace longhaul::io {
namespace {

uffdio_range RangeOf(std::span<const std::byte> pages) {
  return {reinterpret_cast<uintptr_t>(pages.data()), pages.size()};
}

// The system call where we may handle the kernel's faults, else the device.
int OpenUserfaultfd() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  const long called = syscall(SYS_userfaultfd, kFlags);
  if (called >= 0) return static_cast<int>(called);
  const int error = errno;
#ifdef USERFAULTFD_IOC_NEW
  const Fd device(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device.valid()) {
    const int made = ioctl(device.get(), USERFAULTFD_IOC_NEW, kFlags);
    if (made >= 0) return made;
  }
#endif
  errno = error;
  return -1;
}

}  // namespace

Result<WriteGuard> WriteGuard::Create() {
#ifdef LONGHAUL_THREAD_SANITIZER
  // The kernel orders a guarded write after the copy, which ThreadSanitizer cannot detect.
  return Unavailable("no guard of memory under ThreadSanitizer");
#endif
  Fd fd(OpenUserfaultfd());
  if (!fd.valid()) return Unavailable(FromErrno(errno, "no userfaultfd").message());
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    return Unavailable(FromErrno(errno, "no write-protect mode of userfaultfd").message());
  }
  return WriteGuard(std::move(fd));
}

bool WriteGuard::Protect(std::span<const std::byte> pages) {
  CHECK(reinterpret_cast<uintptr_t>(pages.data()) % kGuardPage == 0);
  CHECK(pages.size() % kGuardPage == 0);
  if (pages.empty()) return true;
  // Memory that we have registered before is fine; it may be another mapping by now.
  uffdio_register registered{};
  registered.range = RangeOf(pages);
  registered.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(fd_.get(), UFFDIO_REGISTER, &registered) != 0) return false;
  uffdio_writeprotect protect{};
  protect.range = registered.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  while (ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &protect) != 0) {
    if (errno != EAGAIN && errno != EINTR) return false;
  }
  return true;
}

void WriteGuard::Release(std::span<const std::byte> pages) {
  if (pages.empty()) return;
  uffdio_writeprotect release{};
  release.range = RangeOf(pages);
  while (ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &release) != 0) {
    if (errno == EAGAIN || errno == EINTR) continue;
    // A part was unmapped meanwhile (ENOENT): no write blocks there; page by page for the rest.
    if (pages.size() == kGuardPage) return;
    const size_t half = pages.size() / kGuardPage / 2 * kGuardPage;
    Release(pages.first(half));
    return Release(pages.subspan(half));
  }
}

std::optional<uintptr_t> WriteGuard::NextWrite() {
  uffd_msg message{};
  while (true) {
    const ssize_t got = read(fd_.get(), &message, sizeof(message));
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof(message))) return std::nullopt;
    const uint64_t address = message.arg.pagefault.address;  // the message is packed
    if (message.event == UFFD_EVENT_PAGEFAULT) return address;
  }
}

}  // namespace longhaul::io
