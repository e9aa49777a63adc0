// `longhaul top`: the cluster in a terminal, drawn again each second.
#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include "base/format.h"
#include "base/time.h"
#include "bin/client/client.h"
#include "bin/client/top_text.h"
#include "frontend/live_view.h"
#include "frontend/terminal.h"
#include "io/clock.h"
#include "io/fd.h"

namespace longhaul::bin::client {
namespace {

constexpr Duration kTopPeriod = std::chrono::seconds(1);
constexpr const char* kTopPath = "/v1/view/cluster";

// Reads single keys while it lives: the terminal neither collects a line nor shows the keys.
class KeyInput {
 public:
  KeyInput() {
    if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  }
  ~KeyInput() {
    if (changed_) (void)!tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  KeyInput(const KeyInput&) = delete;
  KeyInput& operator=(const KeyInput&) = delete;

  bool changed() const { return changed_; }

 private:
  termios before_{};
  bool changed_ = false;
};

// Blocks the signals that end the program, or change its window, and makes them readable: the
// terminal has to be restored first.
io::Fd WatchTopSignals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  return io::Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

enum class Woken { kTime, kWindow, kQuit };

Woken AfterSignal(const io::Fd& signals) {
  signalfd_siginfo info{};
  while (read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGWINCH) return Woken::kQuit;
  }
  return Woken::kWindow;
}

// Blocks until the next picture is due, a key or a signal. Other keys than q do nothing.
Woken WaitForNext(const io::Fd& signals, bool keys, Instant due) {
  while (true) {
    const Duration left = due - io::MonotonicNow();
    if (left <= Duration(0)) return Woken::kTime;
    std::array<pollfd, 3> waits = {pollfd{signals.get(), POLLIN, 0},
                                   pollfd{keys ? STDIN_FILENO : -1, POLLIN, 0},
                                   pollfd{STDOUT_FILENO, 0, 0}};
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (poll(waits.data(), waits.size(), static_cast<int>(left_ms)) <= 0) continue;
    if (waits[0].revents != 0) return AfterSignal(signals);
    if (waits[2].revents != 0) return Woken::kQuit;  // the reader or the terminal is gone
    if (waits[1].revents == 0) continue;
    char key = 0;
    const ssize_t got = read(STDIN_FILENO, &key, 1);
    constexpr char kEndOfInput = 4;  // Control-D
    if (got <= 0 || key == 'q' || key == 'Q' || key == kEndOfInput) return Woken::kQuit;
  }
}

std::string PlainText(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

int Once(const Json& view, bool json) {
  if (json) return frontend::WriteOut(view.dump() + "\n"), kExitOk;
  // For a program or a file: each row whole.
  constexpr size_t kWide = 1'000;
  const size_t columns = frontend::CanDrawFrames() ? frontend::TerminalStyle().columns : kWide;
  return frontend::WriteOut(PlainText(TopLines(view, {columns, 0}, ""))), kExitOk;
}

// One picture after another, until q or a signal. The last state stays while the controller does
// not answer, with the reason.
int Follow(RestClient& client, Json view, bool json) {
  const bool draws = frontend::CanDrawFrames() && !json;
  const io::Fd signals = WatchTopSignals();
  const KeyInput keys;
  frontend::ScreenPainter painter;
  std::string notice = keys.changed() ? "q: quit" : "";
  for (Woken woken = Woken::kTime; woken != Woken::kQuit;) {
    const Instant due = io::MonotonicNow() + kTopPeriod;
    if (draws) {
      const frontend::ViewStyle style = frontend::TerminalStyle();
      // Below the picture is the line of the cursor.
      const size_t rows = std::max<size_t>(2, style.rows) - 1;
      if (woken == Woken::kWindow) frontend::WriteOut(painter.Clear());
      frontend::WriteOut(painter.Paint(TopLines(view, {style.columns, rows}, notice)));
    } else if (json) {
      frontend::WriteOut(view.dump() + "\n");
    } else {
      frontend::WriteOut(PlainText(TopLines(view, {frontend::TerminalStyle().columns, 0}, "")) +
                         "\n");
    }
    woken = WaitForNext(signals, keys.changed(), due);
    if (woken != Woken::kTime) continue;
    auto next = client.Get(kTopPath);
    if (next.ok()) {
      view = *std::move(next);
      notice = keys.changed() ? "q: quit" : "";
    } else if (draws) {
      notice = "old, because the controller did not answer: " + next.status().message();
    } else {
      return Fail(next.status());
    }
  }
  frontend::WriteOut(painter.Finish());
  return kExitOk;
}

int Top(RestClient& client, const Options& options) {
  auto view = client.Get(kTopPath);
  if (!view.ok()) return Fail(view.status());
  return options.once ? Once(*view, options.json) : Follow(client, *std::move(view), options.json);
}

}  // namespace

void AddTop(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* command =
      Add(app, action, "top", "Show queues, jobs and nodes in the terminal, again each second", Top,
          options);
  command->add_flag("--once", options->once, "Print the present state and exit");
  command->add_flag("--json", options->json, "Print a JSON object a line instead of text");
  command->footer(
      "The key q quits. The picture fits the terminal; where rows are missing, it states how "
      "many.\n"
      "Without a terminal, each picture is printed whole, below the one before. Examples:\n"
      "  longhaul top\n"
      "  longhaul top --once\n"
      "  longhaul top --once --json");
}

}  // namespace longhaul::bin::client
