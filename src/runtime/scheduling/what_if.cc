#include "runtime/scheduling/what_if.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "runtime/scheduling/queue_rules.h"
#include "spec/cluster/cluster_file.h"

namespace longhaul::runtime::scheduling {
namespace {

using scheduler::DecisionKind;
using spec::NodeCondition;
using Kind = WhatIfChange::Kind;
using Effect = WhatIfEffect;

// Decisions that follow from each other are carried out at one moment, as the controller does.
constexpr int kRoundsAtOnce = 16;
constexpr size_t kMostChanges = 100;
// A job that was suspended for longer than it was expected to run ends soon after it returns.
constexpr Duration kLeastRun = std::chrono::seconds(1);

// ", did you mean 'rack-3'?", or nothing.
std::string DidYouMean(const std::string& word, const std::set<std::string>& known) {
  const std::vector<std::string_view> words(known.begin(), known.end());
  const auto meant = Nearest(word, words);
  return meant ? ", did you mean '" + std::string(*meant) + "'?" : "";
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// --- The changes.

// Makes changes to a copy of the scheduler.
class Changer {
 public:
  Changer(ClusterScheduler& scheduler, Instant now) : scheduler_(scheduler), now_(now) {}

  Status Make(const WhatIfChange& change) {
    switch (change.kind) {
      case Kind::kDrain:
        return Drain(change);
      case Kind::kAdd:
        return Add(change);
      case Kind::kGuarantee:
        return Guarantee(change);
      case Kind::kLimit:
        return Limit(change);
      case Kind::kStop: {
        RETURN_IF_ERROR(CheckJob(change.subject));
        scheduler_.End(JobId(change.subject), now_);
        return {};
      }
      case Kind::kSubmit: {
        Status accepted = CheckRights(scheduler_.configuration(), change.job);
        if (accepted.ok()) accepted = scheduler_.CheckSubmission(change.job);
        if (!accepted.ok()) return accepted.WithContext("job " + change.job.id());
        scheduler_.Submit(change.job, now_);
        return {};
      }
    }
    return {};
  }

 private:
  Status CheckJob(const std::string& id) const {
    std::set<std::string> known;
    for (const JobId& job : scheduler_.Jobs()) known.insert(job.value());
    if (known.contains(id)) return {};
    return NotFound("no live job with the id '" + Printable(id, 80) + "'" + DidYouMean(id, known));
  }

  // A name may be a node's or a domain's on any level, and the declaration also names nodes that
  // have not joined. Only a name with one meaning is accepted. The entry "node" is set and not
  // extended, because a node that has joined is usually declared too.
  Status Drain(const WhatIfChange& change) {
    std::set<std::string> known;
    std::map<std::string, std::vector<std::string>> found;  // nodes by level
    for (const std::string& node : scheduler_.JoinedNodes()) {
      known.insert(node);
      if (node == change.subject && change.level.empty()) found["node"].push_back(node);
    }
    if (const auto& declared = scheduler_.cluster().declaration()) {
      for (const spec::DeclaredNode& node : declared->nodes) {
        known.insert(node.name);
        if (node.name == change.subject && change.level.empty()) found["node"] = {node.name};
        for (size_t i = 0; i < node.domains.size(); ++i) {
          const std::string& level = declared->levels[i];
          if (!change.level.empty() && level != change.level) continue;
          known.insert(node.domains[i]);
          if (node.domains[i] == change.subject) found[level].push_back(node.name);
        }
      }
    }
    if (found.empty()) {
      return NotFound(
          "there is no node or domain '" + Printable(change.subject, 80) + "'" +
          (change.level.empty() ? "" : " of level '" + Printable(change.level, 40) + "'") +
          DidYouMean(change.subject, known));
    }
    if (found.size() > 1) {
      return InvalidArgument("'" + change.subject + "' is a " + found.begin()->first + " and a " +
                             std::next(found.begin())->first +
                             "; name the level of the domain: drain LEVEL " + change.subject);
    }
    for (const std::string& node : found.begin()->second) {
      scheduler_.SetCondition(node, NodeCondition::kDraining, now_);
    }
    return {};
  }

  // The exact name counts first; otherwise any case is accepted if it is unambiguous.
  Result<uint16_t> ModelOf(const spec::ClusterDeclaration& cluster, const std::string& name) const {
    std::set<std::string> known;
    std::vector<uint16_t> alike;
    for (size_t i = 0; i < cluster.models.size(); ++i) {
      const std::string& model = cluster.models[i].name;
      if (model == name) return static_cast<uint16_t>(i);
      known.insert(model);
      if (Lower(model) == Lower(name)) alike.push_back(static_cast<uint16_t>(i));
    }
    if (alike.size() == 1) return alike.front();
    return NotFound("the cluster file declares no device model '" + Printable(name, 80) + "'" +
                    DidYouMean(name, known));
  }

  // Without a leaf the new nodes get a domain of their own on every level, so that no existing
  // domain grows.
  Result<std::vector<std::string>> DomainsOf(const spec::ClusterDeclaration& cluster,
                                             const std::string& leaf) const {
    std::set<std::string> known;
    for (const spec::DeclaredNode& node : cluster.nodes) {
      if (node.domains.empty()) continue;
      known.insert(node.domains.front());
      if (node.domains.front() == leaf) return node.domains;
    }
    if (!leaf.empty()) {
      return NotFound("there is no leaf '" + Printable(leaf, 80) + "'" + DidYouMean(leaf, known));
    }
    std::string own = "added";
    for (int i = 2; known.contains(own); ++i) own = "added-" + std::to_string(i);
    return std::vector<std::string>(cluster.levels.size(), own);
  }

  // The new nodes are alike an existing kind of node with this model if there is one, so that host
  // resources are realistic.
  Status Add(const WhatIfChange& change) {
    if (!scheduler_.cluster().declaration()) {
      return FailedPrecondition(
          "no cluster file declares device models; name one in the controller's file "
          "(cluster: FILE)");
    }
    spec::ClusterDeclaration cluster = *scheduler_.cluster().declaration();
    ASSIGN_OR_RETURN(const uint16_t model, ModelOf(cluster, change.subject));
    const auto like =
        std::find_if(cluster.kinds.begin(), cluster.kinds.end(), [&](const auto& kind) {
          return kind.model == model && !kind.devices.empty() &&
                 (change.per_node == 0 || kind.devices.size() == change.per_node);
        });
    const uint32_t per_node = change.per_node > 0 ? change.per_node
                              : like != cluster.kinds.end()
                                  ? static_cast<uint32_t>(like->devices.size())
                                  : 1;
    if (change.count % per_node != 0) {
      return InvalidArgument(std::to_string(change.count) + " devices are not whole nodes of " +
                             std::to_string(per_node) + "; write per-node K");
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> domains, DomainsOf(cluster, change.leaf));
    auto kind = static_cast<uint32_t>(like - cluster.kinds.begin());
    if (like == cluster.kinds.end()) {
      constexpr int64_t kPlenty = INT32_MAX;  // nothing is known of such a node's host
      cluster.kinds.push_back(spec::UniformKind("what-if", model, per_node, 1, kPlenty, kPlenty));
    }
    std::set<std::string> names;
    for (const spec::DeclaredNode& node : cluster.nodes) names.insert(node.name);
    std::vector<std::string> added;
    for (uint32_t number = 1; added.size() < change.count / per_node; ++number) {
      std::string name = "added-" + std::to_string(number);
      if (!names.insert(name).second) continue;
      if (cluster.nodes.size() > spec::kMaxTopologyNodes) break;  // refused below
      spec::DeclaredNode& node = cluster.nodes.emplace_back();
      node.name = name;
      node.kind = kind;
      node.domains = domains;
      added.push_back(std::move(name));
    }
    const spec::NodeKind& host = cluster.kinds[kind];
    const NodeFacts facts = {per_node, static_cast<uint64_t>(host.cpu_milli / 1000),
                             static_cast<uint64_t>(host.memory_mib) << 20};
    for (const std::string& name : added) {
      scheduler_.SetNode(name, facts, NodeCondition::kReady, now_);
    }
    return scheduler_.Reconfigure(scheduler_.configuration(), std::move(cluster));
  }

  Status CheckQueue(const std::string& name) const {
    std::set<std::string> known;
    for (const spec::QueueSpec& queue : scheduler_.configuration().queues) known.insert(queue.name);
    if (known.contains(name)) return {};
    return NotFound("there is no queue '" + Printable(name, 63) + "'" + DidYouMean(name, known));
  }

  // Amounts of accelerators are in thousandths, and accelerators are the first dimension.
  Status Guarantee(const WhatIfChange& change) {
    RETURN_IF_ERROR(CheckQueue(change.subject));
    spec::ControllerSpec configuration = scheduler_.configuration();
    for (spec::QueueSpec& queue : configuration.queues) {
      if (queue.name == change.subject) queue.guarantee[0] = int64_t{change.count} * 1000;
    }
    return scheduler_.Reconfigure(std::move(configuration), scheduler_.cluster().declaration());
  }

  // A limit is set as a whole: the other amounts keep their present values.
  Status Limit(const WhatIfChange& change) {
    RETURN_IF_ERROR(CheckQueue(change.subject));
    proto::Amounts limit;
    limit.set_accelerators(-1);
    limit.set_cpu(-1);
    limit.set_memory_gib(-1);
    for (const proto::QueueStatus& queue : scheduler_.Queues()) {
      if (queue.name() == change.subject) limit = queue.limit();
    }
    limit.set_accelerators(change.unlimited ? -1.0 : change.count);
    RETURN_IF_ERROR(scheduler_.CheckLimit(change.subject, limit));
    scheduler_.SetLimit(change.subject, limit, now_);
    return {};
  }

  ClusterScheduler& scheduler_;
  Instant now_;
};

// --- The courses.

struct Course {
  bool ran_at_first = false;      // it had nodes before anything was played
  std::optional<Instant> starts;  // the first time that it gets nodes
  std::optional<Instant> ends;
  std::optional<Instant> stopped;  // the first time, of one that ran
  std::optional<Instant> resumes;  // after that
  std::optional<Instant> moved;    // the first time
  std::optional<Instant> shrunk;   // the first time
  std::string aside;               // why the cluster could never hold it
};

// Plays one copy of the scheduler forward.
class Player {
 public:
  Player(ClusterScheduler scheduler, Instant now, const WhatIfOptions& options)
      : scheduler_(std::move(scheduler)), now_(now), options_(options) {}

  void Begin() {
    for (const JobId& id : scheduler_.Jobs()) {
      Course& course = courses_[id.value()];
      const bool waits = scheduler_.Waits(id);
      const auto outlook = scheduler_.OutlookOf(id);
      // In this simulation a job that leaves its nodes has left them at once.
      scheduler_.Stopped(id, now_);
      if (waits || !outlook || !outlook->placed) continue;
      course.ran_at_first = true;
      course.starts = now_;
      Note(id.value(), *outlook);
      running_[id.value()] = now_;
      left_[id.value()] = std::max(kLeastRun, outlook->started + outlook->length - now_);
    }
  }
  ClusterScheduler& scheduler() { return scheduler_; }
  // These jobs have ended.
  void Forget(const std::set<std::string>& jobs) {
    for (const std::string& id : jobs) running_.erase(id);
  }

  // From event to event: the end of a job, or a deadline of the scheduler. Nothing happens between
  // two of them, so the time that is played does not determine the cost.
  void Run() {
    const Instant end = now_ + options_.horizon;
    for (Instant at = now_; !cut_;) {
      if (!PlayAt(at)) break;
      const auto next = NextAfter(at);
      until_ = at;
      if (!next || *next > end) {
        until_ = end;
        break;
      }
      at = *next;
    }
    for (const JobId& id : scheduler_.Jobs()) courses_[id.value()].aside = scheduler_.AsideText(id);
  }

  const std::map<std::string, Course>& courses() const { return courses_; }
  const std::set<std::string>& unknown() const { return unknown_; }
  Instant until() const { return until_; }
  bool cut() const { return cut_; }
  uint64_t rounds() const { return rounds_; }

 private:
  // Returns false when no more rounds are allowed.
  bool PlayAt(Instant at) {
    std::vector<std::string> over;
    for (const auto& [id, since] : running_) {
      if (since + left_.at(id) <= at) over.push_back(id);
    }
    for (const std::string& id : over) {
      courses_[id].ends = at;
      running_.erase(id);
      scheduler_.End(JobId(id), at);
    }
    for (int round = 0; round < kRoundsAtOnce && (round == 0 || scheduler_.Due(at)); ++round) {
      if (rounds_ == options_.rounds || (options_.expired && options_.expired())) {
        cut_ = true;
        until_ = std::max(now_, at - Duration(1));
        return false;
      }
      ++rounds_;
      for (const Verdict& verdict : scheduler_.Decide(at)) Carry(verdict, at);
    }
    return true;
  }

  // The earliest of the scheduler's deadlines and the expected ends of running jobs.
  std::optional<Instant> NextAfter(Instant at) const {
    auto next = scheduler_.NextDeadline();
    for (const auto& [id, since] : running_) {
      const Instant end = since + left_.at(id);
      next = next ? std::min(*next, end) : end;
    }
    // Time advances in each iteration, so the loop ends at the horizon at the latest.
    if (next) next = std::max(*next, at + Duration(1));
    return next;
  }

  void Note(const std::string& id, const scheduler::JobOutlook& outlook) {
    if (!outlook.known) unknown_.insert(id);
  }

  void Carry(const Verdict& verdict, Instant at) {
    const std::string& id = verdict.job.value();
    Course& course = courses_[id];
    switch (verdict.kind) {
      case DecisionKind::kStart:
        Confirm(verdict, at);
        return Start(verdict.job, course, at);
      case DecisionKind::kMove:
        Confirm(verdict, at);
        scheduler_.Stopped(verdict.job, at);
        if (!course.moved) course.moved = at;
        return;
      case DecisionKind::kRepair:
        Confirm(verdict, at);
        if (!course.moved) course.moved = at;
        return;
      case DecisionKind::kGrow:
        return Confirm(verdict, at);
      case DecisionKind::kShrink:
        if (!course.shrunk) course.shrunk = at;
        return;
      case DecisionKind::kSuspend:
      case DecisionKind::kEvict:
      case DecisionKind::kUndo:
        scheduler_.Stopped(verdict.job, at);
        return Stop(id, course, at);
      case DecisionKind::kReserve:
      case DecisionKind::kReject:
        return;
    }
  }

  void Confirm(const Verdict& verdict, Instant at) {
    scheduler_.Confirm(verdict.job, verdict.transaction, true, at);
  }

  void Start(const JobId& id, Course& course, Instant at) {
    if (!course.starts) course.starts = at;
    if (course.stopped && !course.resumes) course.resumes = at;
    running_[id.value()] = at;
    if (left_.contains(id.value())) return;
    const auto outlook = scheduler_.OutlookOf(id);
    if (!outlook) return;
    Note(id.value(), *outlook);
    // Only at the first start. A job that was suspended keeps the rest that Stop computed.
    left_[id.value()] = std::max(kLeastRun, outlook->length);
  }

  // A suspended job continues where it was, so only the rest of its length is left.
  void Stop(const std::string& id, Course& course, Instant at) {
    const auto since = running_.find(id);
    if (since == running_.end()) return;
    left_[id] = std::max(kLeastRun, left_[id] - (at - since->second));
    running_.erase(since);
    if (!course.stopped) course.stopped = at;
  }

  ClusterScheduler scheduler_;
  Instant now_;
  const WhatIfOptions& options_;
  std::map<std::string, Course> courses_;
  std::map<std::string, Instant> running_;  // since when
  std::map<std::string, Duration> left_;    // at that moment
  std::set<std::string> unknown_;
  Instant until_{};
  bool cut_ = false;
  uint64_t rounds_ = 0;
};

// --- Their differences.

class Comparison {
 public:
  Comparison(Instant now, Instant until) : now_(now), until_(until) {}

  // Returns nothing for courses that are alike.
  std::optional<WhatIfRow> Compare(const std::string& id, const Course* before,
                                   const Course& after) const {
    WhatIfRow row;
    row.job = id;
    if (before == nullptr) return New(std::move(row), after);
    const auto with = [&](Effect effect, std::optional<Instant> was, std::optional<Instant> is) {
      row.effect = effect;
      row.before = was;
      row.after = is;
      return row;
    };
    // A job has at most one row: the first effect in this order counts, since the later ones often
    // follow from it.
    if (!after.aside.empty() && before->aside.empty()) {
      row.reason = after.aside;
      return with(Effect::kCannotRun, Known(before->starts), std::nullopt);
    }
    const auto differs = [&](std::optional<Instant> Course::*what) {
      return Known(after.*what).has_value() && Known(before->*what) != Known(after.*what);
    };
    if (differs(&Course::stopped) && Sooner(after.stopped, before->stopped)) {
      row.resumes = Known(after.resumes);
      return with(Effect::kStopped, Known(before->stopped), after.stopped);
    }
    const auto was = Known(before->starts);
    const auto is = Known(after.starts);
    if (was != is) {
      if (!is) return with(Effect::kNotInTime, was, is);
      if (Sooner(was, is)) return with(Effect::kStartsLater, was, is);
      return with(*is == now_ ? Effect::kStartsNow : Effect::kStartsEarlier, was, is);
    }
    if (differs(&Course::moved) && Sooner(after.moved, before->moved)) {
      return with(Effect::kMoved, Known(before->moved), after.moved);
    }
    if (differs(&Course::shrunk) && Sooner(after.shrunk, before->shrunk)) {
      return with(Effect::kShrunk, Known(before->shrunk), after.shrunk);
    }
    const auto ended = Known(before->ends);
    const auto ends = Known(after.ends);
    if (ended == ends) return std::nullopt;
    return with(Sooner(ends, ended) ? Effect::kEndsEarlier : Effect::kEndsLater, ended, ends);
  }

 private:
  // What lies beyond the time that both copies reached is not known of both.
  std::optional<Instant> Known(std::optional<Instant> at) const {
    return at && *at <= until_ ? at : std::nullopt;
  }
  // Whether a happens, and before b does.
  bool Sooner(std::optional<Instant> a, std::optional<Instant> b) const {
    const auto first = Known(a);
    const auto second = Known(b);
    return first && (!second || *first < *second);
  }

  WhatIfRow New(WhatIfRow row, const Course& after) const {
    row.effect = after.aside.empty() ? Effect::kNew : Effect::kCannotRun;
    row.after = Known(after.starts);
    row.reason = after.aside;
    return row;
  }

  Instant now_;
  Instant until_;
};

}  // namespace

std::string_view NameOf(WhatIfEffect effect) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "cannot-run", "not-in-time", "stopped",        "moved",        "shrunk", "starts-later",
      "ends-later", "starts-now",  "starts-earlier", "ends-earlier", "new"};
  return kNames[static_cast<size_t>(effect)];
}

Result<WhatIfAnswer> AnswerWhatIf(const ClusterScheduler& present,
                                  const std::vector<WhatIfChange>& changes, Instant now,
                                  const WhatIfOptions& options) {
  if (changes.empty() || changes.size() > kMostChanges) {
    return InvalidArgument(std::to_string(changes.size()) + " changes, expected 1 to " +
                           std::to_string(kMostChanges));
  }
  Player as_it_is(present.Clone(), now, options);
  Player changed(present.Clone(), now, options);
  as_it_is.Begin();
  changed.Begin();
  std::set<std::string> ended;
  Changer changer(changed.scheduler(), now);
  for (const WhatIfChange& change : changes) {
    const Status made = changer.Make(change);
    if (!made.ok()) return made.WithContext(ToString(change));
    if (change.kind == Kind::kStop) ended.insert(change.subject);
  }
  changed.Forget(ended);
  as_it_is.Run();
  changed.Run();
  WhatIfAnswer answer;
  answer.now = now;
  answer.until = std::min(as_it_is.until(), changed.until());
  answer.cut = as_it_is.cut() || changed.cut();
  answer.rounds = as_it_is.rounds() + changed.rounds();
  const Comparison comparison(now, answer.until);
  for (const auto& [id, course] : changed.courses()) {
    if (ended.contains(id)) continue;
    ++answer.jobs;
    const auto before = as_it_is.courses().find(id);
    const Course* was = before == as_it_is.courses().end() ? nullptr : &before->second;
    if (auto row = comparison.Compare(id, was, course)) answer.rows.push_back(*std::move(row));
  }
  std::stable_sort(answer.rows.begin(), answer.rows.end(),
                   [](const WhatIfRow& a, const WhatIfRow& b) { return a.effect < b.effect; });
  std::set<std::string> unknown = as_it_is.unknown();
  unknown.insert(changed.unknown().begin(), changed.unknown().end());
  answer.unknown.assign(unknown.begin(), unknown.end());
  return answer;
}

}  // namespace longhaul::runtime::scheduling
