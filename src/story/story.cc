#include "story/story.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "proto/fault_class.h"
#include "proto/state_name.h"
#include "story/advice.h"
#include "story/evidence.h"
#include "story/ledger_rows.h"

namespace longhaul::story {
namespace {

// What the notifications say about one fault.
struct Draft {
  proto::Fault fault;      // as last reported
  uint64_t attempt = 0;    // the newest one when it was first reported
  uint64_t last_step = 0;  // the last one reported before it
  int64_t last_step_at_ns = 0;
  uint32_t world = 0;                       // ranks of that attempt
  std::optional<proto::Notification> next;  // the attempt that followed
  std::optional<proto::Notification> end;   // the job's failure, where none followed
  std::vector<Moment> messages;             // warnings from its detection to the next attempt
};

class Reader {
 public:
  explicit Reader(Story& story) : story_(story) {}

  void Take(const proto::Notification& notification) {
    switch (notification.kind_case()) {
      case proto::Notification::kState:
        return TakeState(notification);
      case proto::Notification::kAttempt:
        return TakeAttempt(notification);
      case proto::Notification::kStep:
        step_ = notification.step().step();
        step_at_ns_ = notification.at_ns();
        story_.goodput = notification.step().goodput();
        return;
      case proto::Notification::kFault:
        return TakeFault(notification.fault());
      case proto::Notification::kMessage:
        return TakeMessage(notification);
      default:
        return;
    }
  }

  const std::map<uint32_t, Draft>& drafts() const { return drafts_; }
  uint32_t world() const { return world_; }

 private:
  void TakeState(const proto::Notification& notification) {
    const proto::JobState state = notification.state().state();
    if (story_.submitted_at_ns == 0) story_.submitted_at_ns = notification.at_ns();
    story_.state = std::string(StateName(state));
    story_.reason = notification.state().reason();
    const bool ended =
        state == proto::SUCCEEDED || state == proto::FAILED || state == proto::STOPPED;
    story_.ended_at_ns = ended ? notification.at_ns() : 0;
    if (!ended) return;
    for (auto& [number, draft] : drafts_) {
      if (!draft.next.has_value()) draft.end = notification;
    }
  }

  void TakeAttempt(const proto::Notification& notification) {
    attempt_ = notification.attempt().attempt();
    world_ = std::max(world_, notification.attempt().world());
    for (auto& [number, draft] : drafts_) {
      if (!draft.next.has_value() && attempt_ > draft.attempt) draft.next = notification;
    }
    step_ = 0;
    step_at_ns_ = 0;
  }

  void TakeFault(const proto::Fault& fault) {
    const auto [found, is_new] = drafts_.try_emplace(fault.number());
    Draft& draft = found->second;
    draft.fault = fault;
    if (!is_new) return;
    // One that is known only after the restart happened in the attempt before it, as the other did.
    if (const Draft* other = OfSameRestart(fault)) {
      draft = *other;
      draft.fault = fault;
      draft.messages.clear();
      return;
    }
    draft.attempt = attempt_;
    draft.last_step = step_;
    draft.last_step_at_ns = step_at_ns_;
    draft.world = world_;
  }

  const Draft* OfSameRestart(const proto::Fault& fault) const {
    uint32_t number = 0;
    const std::string& action = fault.action();
    if (!action.starts_with(proto::kSameRestart)) return nullptr;
    const char* begin = action.data() + proto::kSameRestart.size();
    std::from_chars(begin, action.data() + action.size(), number);
    const auto other = drafts_.find(number);
    return other == drafts_.end() ? nullptr : &other->second;
  }

  void TakeMessage(const proto::Notification& notification) {
    constexpr size_t kMostMessages = 8, kMostWarnings = 1'000;
    if (notification.message().severity() == proto::MessageNotification::INFO) return;
    const std::string text = Headline(notification.message().text()) + ".";
    Draft* draft = drafts_.empty() ? nullptr : &drafts_.rbegin()->second;
    if (draft == nullptr || draft->next.has_value()) {
      if (story_.warnings.size() < kMostWarnings) {
        story_.warnings.push_back({notification.at_ns(), text});
      }
    } else if (draft->messages.size() < kMostMessages) {
      draft->messages.push_back({notification.at_ns(), "Warning: " + text});
    }
  }

  Story& story_;
  std::map<uint32_t, Draft> drafts_;
  uint64_t attempt_ = 0;
  uint64_t step_ = 0;
  int64_t step_at_ns_ = 0;
  uint32_t world_ = 0;
};

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return std::max(0.0, static_cast<double>(to_ns - from_ns) * 1e-9);
}

std::string RestoreText(const proto::Restore& restore) {
  switch (restore.tier()) {
    case proto::Restore::TIER_MEMORY:
      return "from the snapshots in memory at step ";
    case proto::Restore::TIER_PEER:
      return "from a peer's memory at step ";
    case proto::Restore::TIER_DISK:
      return "from the checkpoint on disk at step ";
    case proto::Restore::TIER_SHARED:
      return "from the second tier at step ";
    default:
      return "from the stored state at step ";
  }
}

std::string AttemptText(const proto::AttemptNotification& attempt) {
  std::string text = "Attempt " + std::to_string(attempt.attempt()) + " was opened with " +
                     Plural(attempt.world(), "worker") + " on ";
  std::vector<std::string> nodes(attempt.gang().begin(), attempt.gang().end());
  text += nodes.empty() ? "no node" : Join(nodes, ", ");
  if (attempt.restore().tier() == proto::Restore::TIER_NONE) return text + ".";
  return text + ", " + RestoreText(attempt.restore()) + std::to_string(attempt.restore().step()) +
         ".";
}

// The record of an action is extended when the output shows the step; the story has that elsewhere.
std::string ActionText(const std::string& action) {
  return "The controller decided: " + Headline(action.substr(0, action.find("; the output"))) + ".";
}

std::vector<Moment> ActionsOf(const Draft& draft) {
  const proto::Fault& fault = draft.fault;
  std::vector<Moment> actions = draft.messages;
  const auto add = [&actions](int64_t at_ns, const std::string& text) {
    if (at_ns != 0) actions.push_back({at_ns, text});
  };
  const bool continued =
      fault.started_at_ns() == 0 && !draft.next.has_value() && fault.decided_at_ns() != 0;
  if (!continued && draft.attempt > 0) {
    add(fault.detected_at_ns(), "The controller ended the remaining workers of attempt " +
                                    std::to_string(draft.attempt) + " on all nodes.");
  }
  if (!fault.action().empty()) add(fault.decided_at_ns(), ActionText(fault.action()));
  if (draft.next.has_value()) add(draft.next->at_ns(), AttemptText(draft.next->attempt()));
  add(fault.started_at_ns(), "All new processes existed.");
  add(fault.rendezvous_at_ns(), "All workers were in the rendezvous.");
  add(fault.restoring_at_ns(), "The process group was formed.");
  add(fault.stepping_at_ns(), "All workers had restored or prepared their state.");
  add(fault.first_step_at_ns(), "The first step of the new attempt was done.");
  add(fault.new_step_at_ns(), "The first step that had not been done before was done.");
  if (draft.end.has_value()) {
    add(draft.end->at_ns(), "The job " + std::string(StateName(draft.end->state().state())) + ": " +
                                Headline(draft.end->state().reason()) + ".");
  }
  std::stable_sort(actions.begin(), actions.end(),
                   [](const Moment& a, const Moment& b) { return a.at_ns < b.at_ns; });
  return actions;
}

void SortByCost(std::vector<CategorySeconds>& costs) {
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
}

FaultStory StoryOf(const Draft& draft, const RunRecord& record, const Story& run, double ranks) {
  const proto::Fault& fault = draft.fault;
  FaultStory story;
  story.number = fault.number();
  story.what = Headline(fault.what());
  story.class_name = fault.class_name();
  story.node = fault.node();
  story.rank = fault.rank();
  story.injected = fault.injected();
  story.happened_at_ns =
      fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
  story.detected_at_ns = std::max(story.happened_at_ns, fault.detected_at_ns());
  story.after_seconds = SecondsBetween(run.submitted_at_ns, story.happened_at_ns);
  story.detection_seconds = SecondsBetween(story.happened_at_ns, story.detected_at_ns);
  story.attempt = draft.attempt;
  story.last_step = draft.last_step;
  story.since_last_step =
      draft.last_step_at_ns == 0 ? -1 : SecondsBetween(draft.last_step_at_ns, story.happened_at_ns);
  if (const proto::WorkerExited* exited = ExitOf(record, story)) {
    if (exited->signal() != 0) {
      story.signal = exited->signal();
    } else {
      story.exit_code = exited->exit_code();
    }
  }
  story.cause = CauseOf(story);
  story.detector = DetectorOf(story);
  story.observations = ObservationsOf(record, story);
  story.stacks = StacksOf(record, story);
  story.actions = ActionsOf(draft);
  story.restarted = draft.next.has_value();
  if (draft.next.has_value()) story.next_attempt = draft.next->attempt().attempt();
  story.from_step = fault.from_step();
  story.lost_steps = fault.lost_steps();
  story.over =
      fault.new_step_at_ns() != 0 || fault.first_step_at_ns() != 0 ||
      (fault.decided_at_ns() != 0 && fault.lost_rank_seconds() > 0 && !draft.end.has_value());
  if (fault.new_step_at_ns() != 0) {
    story.recovery_seconds = SecondsBetween(story.happened_at_ns, fault.new_step_at_ns());
  }
  story.open = !story.over && run.ended_at_ns == 0;
  story.lost_rank_seconds = fault.lost_rank_seconds();
  story.cost_seconds = fault.lost_rank_seconds() / ranks;
  for (const proto::CategoryTime& cost : fault.costs()) {
    story.costs.push_back(
        {std::string(NameOfCategory(cost.category())), cost.rank_seconds() / ranks});
  }
  SortByCost(story.costs);
  story.stages = StagesOf(fault);
  return story;
}

// The worker's log; where that is gone, what the fault's own record has of it.
void AddOutput(FaultStory& story, const RunRecord& record, const std::string& what) {
  if (const std::optional<WantedOutput> wanted = OutputOf(story)) {
    const auto found = record.outputs.find({wanted->attempt, wanted->rank});
    if (found != record.outputs.end() && !found->second.empty()) {
      story.output = found->second;
      story.output_file = OutputFile(*wanted);
      return;
    }
  }
  if (what.find('\n') == std::string::npos) return;
  const size_t message = what.find(": ");
  for (const std::string_view line :
       Split(std::string_view(what).substr(message == what.npos ? 0 : message + 2), '\n')) {
    story.output.emplace_back(line);
  }
}

void AddUp(Story& story) {
  std::map<std::string, CauseRow> rows;
  std::map<std::string, double> costs;
  for (const FaultStory& fault : story.faults) {
    CauseRow& row = rows[fault.class_name];
    row.class_name = fault.class_name;
    ++row.faults;
    row.injected += fault.injected ? 1 : 0;
    row.cost_seconds += fault.cost_seconds;
    story.cost_seconds += fault.cost_seconds;
    for (const CategorySeconds& cost : fault.costs) costs[cost.category] += cost.seconds;
  }
  for (const auto& [name, row] : rows) story.causes.push_back(row);
  std::stable_sort(
      story.causes.begin(), story.causes.end(),
      [](const CauseRow& a, const CauseRow& b) { return a.cost_seconds > b.cost_seconds; });
  for (const auto& [name, seconds] : costs) story.costs.push_back({name, seconds});
  SortByCost(story.costs);
  const std::vector<CategorySeconds>& all =
      story.categories.empty() ? story.costs : story.categories;
  for (const CategorySeconds& each : all) {
    if (each.category == "productive" || each.category == "queue" || each.seconds <= 0) continue;
    if (!story.largest_loss || each.seconds > story.largest_loss->seconds) {
      story.largest_loss = each;
    }
  }
}

void AddNotes(Story& story, const RunRecord& record) {
  story.notes = record.notes;
  const auto note = [&story](const std::string& text) { story.notes.push_back(text); };
  if (!record.has_events && !story.faults.empty()) {
    note(
        "There is no event log here, so exit codes, signals and the states of processes are "
        "missing; the controller that ran the job keeps it.");
  }
  bool undivided = false;
  bool overlap = false;
  for (size_t i = 0; i < story.faults.size(); ++i) {
    const FaultStory& fault = story.faults[i];
    undivided = undivided || (fault.cost_seconds > 0 && fault.costs.empty());
    if (i == 0) continue;
    const FaultStory& before = story.faults[i - 1];
    const double ended = before.after_seconds + before.recovery_seconds.value_or(0);
    overlap = overlap || (before.recovery_seconds.has_value() && fault.after_seconds < ended);
  }
  if (undivided) {
    note(
        "This log is older than the division of a fault's cost by category; only the sums are "
        "known.");
  }
  if (overlap) {
    note(
        "A fault happened before the run had recovered from the one before. The time that both "
        "were open is in the cost of both.");
  }
}

}  // namespace

Story MakeStory(const RunRecord& record) {
  Story story;
  story.job_id = record.job_id;
  Reader reader(story);
  for (const proto::Notification& notification : record.notifications) reader.Take(notification);
  double ranks = std::max(1u, reader.world());
  if (record.totals.has_value()) {
    const RunTotals& totals = *record.totals;
    if (!totals.state.empty()) story.state = totals.state;
    if (!totals.reason.empty()) story.reason = totals.reason;
    story.goodput = totals.goodput;
    story.categories = totals.categories;
    ranks = std::max(1.0, totals.ranks);
  }
  for (const auto& [number, draft] : reader.drafts()) {
    story.faults.push_back(StoryOf(draft, record, story, ranks));
    AddOutput(story.faults.back(), record, draft.fault.what());
  }
  AddUp(story);
  AddNotes(story, record);
  story.advice = AdviceFor(story, record.totals.has_value() ? &*record.totals : nullptr);
  return story;
}

std::optional<WantedOutput> OutputOf(const FaultStory& fault) {
  const bool hang = proto::FaultClassOf(fault.class_name) == proto::FaultClass::kHang;
  // Where all workers hang, the last lines of rank 0 show where the program is.
  if (fault.attempt == 0 || (fault.rank < 0 && !hang)) return std::nullopt;
  return WantedOutput{fault.attempt, static_cast<uint32_t>(std::max(0, fault.rank))};
}

std::string OutputFile(const WantedOutput& output) {
  return "logs/attempt-" + std::to_string(output.attempt) + "/rank-" + std::to_string(output.rank) +
         ".log";
}

}  // namespace longhaul::story
