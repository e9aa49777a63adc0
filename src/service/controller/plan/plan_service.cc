#include "service/controller/plan/plan_service.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/process/process.h"

namespace longhaul::service {
namespace {

constexpr size_t kMostWaiting = 4;  // with the one under way
constexpr size_t kMostKept = 16;    // that have ended
constexpr size_t kMostOutput = 4 << 20;
constexpr Duration kBeyondSearch = std::chrono::seconds(20);  // reading, sensitivities, writing

double SearchSeconds(const PlanRequest& request) {
  return std::chrono::duration<double>(request.limit).count();
}

io::CommandOptions PlannerCommand(const std::string& planner, const PlanRequest& request) {
  io::CommandOptions options;
  options.argv = {planner, "plan"};
  for (std::string& word : PlannerArguments(request)) options.argv.push_back(std::move(word));
  options.argv.push_back("--search-seconds=" + std::to_string(SearchSeconds(request)));
  options.argv.emplace_back("--threads=1");
  options.argv.emplace_back("--json");
  options.environment = io::CurrentEnvironment();
  options.input = request.model_text;
  options.limit = request.limit + kBeyondSearch;
  options.most_output = kMostOutput;
  return options;
}

}  // namespace

std::string_view NameOf(PlanState state) {
  switch (state) {
    case PlanState::kWaiting:
      return "waiting";
    case PlanState::kSearching:
      return "searching";
    case PlanState::kDone:
      return "done";
    case PlanState::kFailed:
      return "failed";
    case PlanState::kCancelled:
      return "cancelled";
  }
  return "";
}

std::string FindPlanner() {
  const Result<std::string> folder = io::ProgramDirectory();
  if (!folder.ok()) return "";
  std::string program = *folder + "/longhaul-tools";
  return ::access(program.c_str(), X_OK) == 0 ? program : "";
}

template <typename Entries>
auto PlanService::Find(Entries& entries, uint64_t plan) -> decltype(&entries.front()) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [plan](const Entry& entry) { return entry.number == plan; });
  return found == entries.end() ? nullptr : &*found;
}

PlanService::PlanService(std::string planner) : planner_(std::move(planner)) {
  thread_ = std::thread([this] { Serve(); });
}

PlanService::~PlanService() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    deadline_.MoveTo(io::MonotonicNow());
    changed_.notify_all();
  }
  thread_.join();
}

Result<PlanStatus> PlanService::Start(PlanRequest request) {
  if (planner_.empty()) {
    return Unavailable(
        "the controller has no planner: the program longhaul-tools is not beside it; build it "
        "(ninja longhaul-tools) or install it");
  }
  std::lock_guard lock(mutex_);
  const auto waiting = static_cast<size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.over(); }));
  if (waiting >= kMostWaiting) {
    return ResourceExhausted(std::to_string(waiting) +
                             " plans wait for the planner: cancel one, or try again later");
  }
  Entry& entry = entries_.emplace_back();
  entry.number = ++last_;
  entry.request = std::move(request);
  ForgetOld();
  changed_.notify_all();
  return StatusOf(entries_.back());
}

Result<PlanStatus> PlanService::Get(uint64_t plan) const {
  std::lock_guard lock(mutex_);
  const Entry* entry = Find(entries_, plan);
  if (entry == nullptr) {
    return NotFound("there is no plan " + std::to_string(plan) + ": the newest " +
                    std::to_string(kMostKept) + " are kept while the controller runs");
  }
  return StatusOf(*entry);
}

Result<PlanStatus> PlanService::Cancel(uint64_t plan) {
  {
    std::lock_guard lock(mutex_);
    Entry* entry = Find(entries_, plan);
    if (entry != nullptr && !entry->over()) {
      if (entry->state == PlanState::kSearching) {
        deadline_.MoveTo(io::MonotonicNow());
        entry->ended = io::MonotonicNow();
      }
      entry->state = PlanState::kCancelled;
    }
  }
  return Get(plan);
}

// The first that waits is next.
void PlanService::Serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto next = std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) {
      return entry.state == PlanState::kWaiting;
    });
    if (stopping_) return;
    if (next == entries_.end()) {
      changed_.wait(lock);
      continue;
    }
    next->state = PlanState::kSearching;
    next->started = io::MonotonicNow();
    const uint64_t number = next->number;
    const PlanRequest request = next->request;
    deadline_.MoveTo(Instant::max());
    lock.unlock();
    Result<std::string> result = Search(request);
    lock.lock();
    Entry* entry = Find(entries_, number);
    // One that was cancelled may have been forgotten meanwhile.
    if (entry == nullptr || entry->state != PlanState::kSearching) continue;
    entry->ended = io::MonotonicNow();
    entry->state = result.ok() ? PlanState::kDone : PlanState::kFailed;
    if (result.ok()) {
      entry->result = *std::move(result);
    } else {
      entry->error = result.status().message();
    }
  }
}

// The planner ends with 1 when no layout fits, and its answer says why.
Result<std::string> PlanService::Search(const PlanRequest& request) {
  ASSIGN_OR_RETURN(io::CommandOutcome outcome,
                   io::RunCommand(PlannerCommand(planner_, request), deadline_, processes_));
  if (!outcome.ended) {
    return DeadlineExceeded("the planner was ended because it took longer than " +
                            ToString(request.limit + kBeyondSearch));
  }
  if (!outcome.cut && nlohmann::json::accept(outcome.output)) return std::move(outcome.output);
  constexpr std::string_view kName = "longhaul: ";
  std::string_view error = outcome.last_error;
  if (error.starts_with(kName)) error.remove_prefix(kName.size());
  return FailedPrecondition(error.empty() ? FailureText(outcome) : std::string(error));
}

PlanStatus PlanService::StatusOf(const Entry& entry) {
  PlanStatus status;
  status.plan = entry.number;
  status.state = entry.state;
  status.limit = entry.request.limit;
  if (entry.started != Instant()) {
    status.searched = (entry.over() ? entry.ended : io::MonotonicNow()) - entry.started;
  }
  status.error = entry.error;
  status.result = entry.result;
  return status;
}

// Requires the lock.
void PlanService::ForgetOld() {
  while (entries_.size() > kMostKept + kMostWaiting && entries_.front().over()) {
    entries_.pop_front();
  }
}

}  // namespace longhaul::service
