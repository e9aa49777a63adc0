#include "service/controller/standby/standby.h"

#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

#include "io/log/log.h"

namespace longhaul::service {
namespace {

constexpr Duration kLookPeriod = std::chrono::milliseconds(50);

// The database may be reachable again later.
bool MayPass(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kResourceExhausted;
}

}  // namespace

std::string HolderName() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"unknown"};
  return std::string(host.data()) + " (process " + std::to_string(::getpid()) + ")";
}

Result<uint64_t> AwaitLeadership(const StandbyOptions& options, Leadership& leadership,
                                 PostgresLog& log, CoreLoop& loop) {
  bool reported = false, reachable = true;
  std::optional<uint64_t> term;
  while (!term.has_value()) {
    const Status followed = loop.CatchUp();
    const auto looked =
        followed.ok() ? leadership.Try() : Result<std::optional<uint64_t>>(followed);
    if (!looked.ok() && !MayPass(looked.status())) return looked.status();
    if (looked.ok() != std::exchange(reachable, looked.ok())) {
      io::LogWarning("controller",
                     looked.ok() ? "the event log can be read again" : looked.status().message());
    }
    if (looked.ok()) term = *looked;
    if (term.has_value()) break;
    if (looked.ok() && !std::exchange(reported, true) && options.on_standby) {
      options.on_standby(leadership.leader());
    }
    if (options.await_end(kLookPeriod)) return CancelledError("it ends while it stands by");
  }
  leadership.Keep(options.on_lost);
  log.Lead(*term);
  // The events since the last look. If the database stays away, the lease ends this process.
  Status followed = loop.CatchUp();
  while (MayPass(followed)) {
    if (options.await_end(kLookPeriod)) return CancelledError("it ends while it takes over");
    followed = loop.CatchUp();
  }
  RETURN_IF_ERROR(followed);
  RETURN_IF_ERROR(
      loop.Read([](const runtime::Controller& core) { return core.CheckInvariants(); }));
  io::LogInfo("controller", "leads with term " + std::to_string(*term) + " after event " +
                                std::to_string(log.last_sequence()));
  return *term;
}

}  // namespace longhaul::service
