#include "runtime/controller/job/hang/slowness_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace longhaul::runtime::controller {
namespace {

constexpr Duration kFirstLook = std::chrono::seconds(15);
constexpr Duration kLeastWait = std::chrono::seconds(30), kLongestWait = std::chrono::hours(6);
constexpr Duration kLeastPause = std::chrono::seconds(3);
constexpr Duration kLongestPause = std::chrono::minutes(5);
constexpr uint32_t kMostAgain = 3;
constexpr Duration kLeastPeriod = std::chrono::seconds(2);
constexpr Duration kLongestPeriod = std::chrono::minutes(10);
constexpr int kStepsOfLook = 5;
constexpr double kSlower = 1.25;     // times what is expected: a look is due
constexpr uint64_t kLeastSteps = 2;  // in a look
constexpr size_t kCallsOfAStack = 3, kLongestStacks = 1'024;

std::string NameOf(const WorkerActivity& worker) { return "worker " + std::to_string(worker.rank); }
std::string NameOf(const SlowLink& slow) {
  const auto [first, second] = std::minmax(slow.link.from, slow.link.to);
  return first + " and " + second;
}

}  // namespace

void SlownessWatch::BeginAttempt(uint32_t workers) {
  const std::optional<Duration> fastest = workers == count_ ? fastest_ : std::nullopt;
  LinkRates rates = workers == count_ ? std::move(rates_) : LinkRates();
  *this = SlownessWatch();
  rates_ = std::move(rates);
  count_ = workers;
  fastest_ = fastest;
  expected_ = fastest;
}

bool SlownessWatch::TakeStep(Duration step, Instant now) {
  recent_.push_back(step);
  if (recent_.size() > kRecent) recent_.pop_front();
  if (recent_.size() < kRecent) return false;
  std::vector<Duration> sorted(recent_.begin(), recent_.end());
  const auto middle = sorted.begin() + kRecent / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  step_ = *middle;
  fastest_ = std::min(fastest_.value_or(*step_), *step_);
  expected_ = std::min(expected_.value_or(*step_), *step_);
  if (!next_.has_value()) next_ = now + kFirstLook;
  if (named_.empty() || stage_ != Stage::kWatching) return false;
  if (kSlower * ToSeconds(*step_) > ToSeconds(named_step_)) return false;
  if (is_slower()) return false;
  named_.clear();
  earliest_.reset();
  pause_ = Duration(0);
  return true;
}

bool SlownessWatch::IsDue(Instant now) const {
  if (stage_ != Stage::kWatching || !step_.has_value()) return false;
  if (earliest_.has_value() && now < *earliest_) return false;
  return now >= *next_ || ToSeconds(*step_) >= kSlower * ToSeconds(*expected_);
}

Duration SlownessWatch::Period() const {
  const Duration steps = step_.value_or(Duration(0)) * kStepsOfLook;
  return std::clamp(steps, kLeastPeriod, kLongestPeriod);
}

void SlownessWatch::BeginLook(uint64_t step, std::set<std::string> nodes) {
  stage_ = Stage::kLooking;
  first_step_ = step;
  was_slower_ = was_slower_ || ToSeconds(*step_) >= kSlower * ToSeconds(*expected_);
  awaited_ = std::move(nodes);
  workers_.clear();
  rates_.Begin();
}

bool SlownessWatch::Take(const std::string& node, const proto::WorkersSampled& answer,
                         const std::map<std::string, std::string>& node_of) {
  if (stage_ != Stage::kLooking || awaited_.erase(node) == 0) return false;
  for (const proto::WorkersSampled::Worker& worker : answer.workers()) {
    workers_.push_back(ActivityOf(worker, node));
  }
  rates_.Take(node, answer, node_of);
  return awaited_.empty();
}

bool SlownessWatch::is_slower() const {
  return ToSeconds(*step_) >= kSlower * ToSeconds(*fastest_);
}

SlownessWatch::Names SlownessWatch::FindSlow() {
  Names names;
  found_ = FindSlowWorkers(std::move(workers_));
  for (const WorkerActivity& worker : found_.slow) names.insert(NameOf(worker));
  if (!names.empty()) return names;
  if (is_slower()) slow_links_ = rates_.Slow();
  for (const SlowLink& link : slow_links_) names.insert(NameOf(link));
  if (names.empty() && !is_slower()) rates_.Learn();
  return names;
}

void SlownessWatch::KeepNamed() {
  const auto is_other = [this](const auto& part) { return !named_.contains(NameOf(part)); };
  std::erase_if(found_.slow, is_other);
  std::erase_if(slow_links_, is_other);
}

SlownessWatch::Outcome SlownessWatch::Conclude(uint64_t step, Instant now) {
  stage_ = Stage::kWatching;
  found_ = {};
  slow_links_.clear();
  const bool shows = awaited_.empty() && step >= first_step_ + kLeastSteps;
  const Names slow = shows ? FindSlow() : Names();
  Names both;  // what this look and the one before have shown
  std::set_intersection(slow.begin(), slow.end(), candidates_.begin(), candidates_.end(),
                        std::inserter(both, both.end()));
  candidates_.clear();
  if (both.empty() && !slow.empty() && slow != named_ && again_++ < kMostAgain) {
    candidates_ = slow;
    return Outcome::kLookAgain;
  }
  again_ = 0;
  // Steps whose time varies cause looks again and again, which therefore become rarer. A regular
  // look proves that they do not.
  pause_ = std::exchange(was_slower_, false) ? std::clamp(pause_ * 2, kLeastPause, kLongestPause)
                                             : kLeastPause;
  earliest_ = now + pause_;
  wait_ = std::clamp(wait_ * 2, kLeastWait, kLongestWait);
  next_ = now + (shows ? wait_ : kLeastWait);
  const bool is_named = slow == named_ || (!both.empty() && both == named_);
  if (!shows || is_named || (!slow.empty() && both.empty())) return Outcome::kNothing;
  expected_ = named_step_ = *step_;
  wait_ = kLeastWait;
  named_ = std::move(both);
  KeepNamed();
  if (named_.empty()) return Outcome::kEnded;
  return found_.slow.empty() ? Outcome::kLinksNamed : Outcome::kWorkersNamed;
}

std::set<std::string> SlownessWatch::BeginStacks() {
  stage_ = Stage::kStacks;
  stacks_.clear();
  awaited_.clear();
  for (const WorkerActivity& worker : found_.slow) awaited_.insert(worker.node);
  return awaited_;
}

bool SlownessWatch::TakeStacks(const std::string& node, const proto::WorkersProbed& answer) {
  if (stage_ != Stage::kStacks || !answer.with_stacks() || awaited_.erase(node) == 0) return false;
  for (const proto::WorkersProbed::Worker& worker : answer.workers()) {
    const auto is_slow = [&worker](const auto& slow) { return slow.rank == worker.rank(); };
    if (std::none_of(found_.slow.begin(), found_.slow.end(), is_slow)) continue;
    if (stacks_.size() > kLongestStacks) continue;
    std::string calls;
    size_t shown = 0;
    for (const std::string_view call : Split(worker.stack(), '\n')) {
      if (call.empty() || shown++ == kCallsOfAStack) break;
      calls += (calls.empty() ? "" : " < ") + std::string(call);
    }
    if (calls.empty()) continue;
    stacks_ += "; worker " + std::to_string(worker.rank()) + " is in " + calls;
  }
  return awaited_.empty();
}

std::string SlownessWatch::StepText() const {
  std::string text = "; a step takes " + ToString(*step_);
  if (is_slower()) text += ", the fastest ones took " + ToString(*fastest_);
  return text;
}

std::string SlownessWatch::LinksText() const { return Describe(slow_links_) + StepText(); }

std::string SlownessWatch::EndStacks() {
  stage_ = Stage::kWatching;
  return Describe(found_) + StepText() + stacks_;
}

}  // namespace longhaul::runtime::controller
