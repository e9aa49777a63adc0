#include "frontend/run_hooks.h"

#include <utility>

namespace longhaul::frontend {
namespace {

// At the end the hooks may send for this long what is queued.
constexpr Duration kHookLimit = std::chrono::seconds(10);

}  // namespace

// A hook's thread may report its failure when the loop has ended; Finish shows it then.
RunHooks::RunHooks(io::EventLoop& loop, const std::vector<spec::HookSpec>& hooks,
                   const std::string& run_directory, std::function<void(const std::string&)> warn)
    : loop_(loop), warn_(std::move(warn)) {
  if (hooks.empty()) return;
  service::NotifierOptions options;
  options.run_directory = run_directory;
  options.on_first_failure = [this](const std::string& line) {
    {
      const std::lock_guard lock(mutex_);
      failures_.push_back(line);
    }
    loop_.Post([this] { ShowFailures(); });
  };
  notifier_ = std::make_unique<service::Notifier>(hooks, std::move(options));
}

void RunHooks::Take(const proto::Notification& notification) {
  if (notifier_ != nullptr) notifier_->Take(notification);
}

std::vector<HookRow> RunHooks::Finish(bool at_once) {
  std::vector<HookRow> rows;
  if (notifier_ == nullptr) return rows;
  for (service::HookResult& result : notifier_->Finish(at_once ? Duration::zero() : kHookLimit)) {
    rows.push_back({std::move(result.name), result.delivered, result.failed, result.dropped,
                    std::move(result.last_error)});
  }
  ShowFailures();
  return rows;
}

void RunHooks::ShowFailures() {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(mutex_);
    lines.swap(failures_);
  }
  for (const std::string& line : lines) warn_(line);
}

}  // namespace longhaul::frontend
