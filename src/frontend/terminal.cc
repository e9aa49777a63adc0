#include "frontend/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace longhaul::frontend {
namespace {

bool IsSet(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool CanDrawFrames() {
  const char* kind = getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return isatty(STDOUT_FILENO) == 1 && !dumb;
}

ViewStyle TerminalStyle() {
  ViewStyle style{.columns = 100, .rows = 24, .color = false};
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return style;
  if (size.ws_col > 0) style.columns = size.ws_col;
  if (size.ws_row > 0) style.rows = size.ws_row;
  style.color = CanDrawFrames() && !IsSet("NO_COLOR");
  return style;
}

void WriteOut(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Somebody made the terminal non-blocking; it is shared with other programs.
      pollfd wait{STDOUT_FILENO, POLLOUT, 0};
      if (poll(&wait, 1, 1000) <= 0) return;
    } else if (written < 0 && errno != EINTR) {
      return;
    }
  }
}

}  // namespace longhaul::frontend
