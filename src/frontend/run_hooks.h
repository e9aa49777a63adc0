// The hooks of a run: passes its notifications to them, and shows where one fails for the first
// time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/report/report.h"
#include "io/event_loop.h"
#include "proto/status.pb.h"
#include "service/notify/notifier.h"
#include "spec/notify/notify_file.h"

namespace longhaul::frontend {

class RunHooks {
 public:
  // `warn` receives one line about the first failure of a hook, on the loop's thread or in Finish.
  // `loop` must outlive this.
  RunHooks(io::EventLoop& loop, const std::vector<spec::HookSpec>& hooks,
           const std::string& run_directory, std::function<void(const std::string&)> warn);

  void Take(const proto::Notification& notification);
  // Whether the process is the command of a hook.
  bool Owns(pid_t process) const { return notifier_ != nullptr && notifier_->Owns(process); }
  // Sends what is queued, for 10 s at most, or nothing more if `at_once`. Returns what became of
  // each hook's messages. Call once.
  std::vector<HookRow> Finish(bool at_once);

 private:
  void ShowFailures();

  io::EventLoop& loop_;
  const std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::vector<std::string> failures_;            // not shown yet; guarded by mutex_
  std::unique_ptr<service::Notifier> notifier_;  // null: there are no hooks
};

}  // namespace longhaul::frontend
