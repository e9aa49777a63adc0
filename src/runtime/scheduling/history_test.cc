// Random histories of a controller with queues, several jobs, bad nodes, operators and restarts.
// All invariants are checked after every event (cluster_fixture.h), guarantees too.
//
// LONGHAUL_HISTORIES=1000 runs so many instead of a few; LONGHAUL_HISTORY_SEED begins elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"
#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing::history_test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

constexpr const char* kQueues = R"(
queues:
  - {name: red, guarantee: {accelerators: 4}}
  - {name: blue, guarantee: {accelerators: 4}, limit: {accelerators: 6}}
  - {name: deep, parent: red, guarantee: {accelerators: 2}}
default_queue: red
scheduling: {evictions_a_day: 1000, repair_patience: 1min, reservations: RESERVATIONS}
)";

// The same queues with limits of users and of run times.
constexpr const char* kLimitedQueues = R"(
queues:
  - {name: red, guarantee: {accelerators: 4}, per_user: {jobs: 12, accelerators: 4}}
  - {name: blue, guarantee: {accelerators: 4}, limit: {accelerators: 6}, per_user: {running: 1},
     max_run_time: 40min}
  - {name: deep, parent: red, guarantee: {accelerators: 2}, users: [user-0, user-1]}
default_queue: red
scheduling: {evictions_a_day: 1000, repair_patience: 1min, reservations: RESERVATIONS}
)";

class History {
 public:
  History(uint64_t seed, bool limited)
      : rng_(seed), limited_(limited), file_(File(seed, limited)), cluster_(file_) {
    for (size_t i = 0; i < kNodes; ++i) {
      lives_.push_back(1);
      cluster_.Join(Name(i));
    }
  }

  void Act() {
    switch (rng_.Below(15)) {
      case 0:
      case 1:
      case 2:
        return Submit();
      case 3:
        if (const auto id = Any(proto::RUNNING)) cluster_.Stop(*id);
        return;
      case 4: {
        const size_t node = rng_.Below(kNodes);
        cluster_.Cordon(Name(node), rng_.Below(3) == 0, rng_.Below(2) == 0);
        return;
      }
      case 5: {
        const size_t node = rng_.Below(kNodes);
        if (!cluster_.Node(Name(node)).connected()) {
          cluster_.Join(Name(node), 2, ++lives_[node]);
        } else if (rng_.Below(2) == 0) {
          ++lost;
          cluster_.Lose(Name(node));
        } else {
          cluster_.Cut(Name(node));
        }
        return;
      }
      case 6:
        if (const auto id = Any(proto::RUNNING)) cluster_.Die(*id, cluster_.GangOf(*id)[0]);
        return;
      case 7:
        return Help();
      case 8:
        if (rng_.Below(3) == 0) Restart();
        return;
      case 9:
        return cluster_.TickUntil(cluster_.now + minutes(1 + rng_.Below(30)));
      case 10:
        return cluster_.TickUntil(cluster_.now + seconds(1 + rng_.Below(15)));
      case 11:
        return ReserveOrCancel();
      case 12:
        return Scale();
      default:
        return StepAll();
    }
  }

  // Killed anywhere and replayed, it is where it was.
  void Restart() {
    Controller replayed{Cluster::Patient()};
    for (const auto& [now, event] : cluster_.log) (void)replayed.Step(event, now);
    ASSERT_EQ(replayed.StateHash(), cluster_.controller.StateHash());
    ASSERT_TRUE(replayed.CheckPlaces().ok()) << replayed.CheckPlaces();
    cluster_.controller = std::move(replayed);
    ++restarts;
    cluster_.Started(file_);
    for (size_t i = 0; i < kNodes; ++i) {
      if (rng_.Below(8) != 0) cluster_.Join(Name(i), 2, lives_[i]);
    }
  }

  int helped = 0;
  int restarts = 0;
  int lost = 0;
  int preempted = 0;
  int ended = 0;    // by max_run_time
  int refused = 0;  // by the rights and limits of users
  int reserved = 0;
  int scaled = 0;

 private:
  static constexpr size_t kNodes = 5;

  static std::string File(uint64_t seed, bool limited) {
    std::string file = limited ? kLimitedQueues : kQueues;
    const std::string word = "RESERVATIONS";
    return file.replace(file.find(word), word.size(), seed % 2 == 0 ? "1" : "4");
  }
  static std::string Name(size_t node) { return "node-" + std::to_string(node + 1); }

  std::optional<std::string> Any(proto::JobState state) {
    std::vector<std::string> ids;
    for (const std::string& id : ids_) {
      if (cluster_.StateOf(id) == state) ids.push_back(id);
    }
    if (ids.empty()) return std::nullopt;
    return ids[rng_.Below(ids.size())];
  }

  void Submit() {
    static constexpr const char* kMeans[] = {"never", "suspend", "requeue", "shrink"};
    static constexpr const char* kNames[] = {"red", "blue", "deep"};
    const std::string id = "job-" + std::to_string(ids_.size() + 1);
    proto::Job job = Gang(id, static_cast<uint32_t>(1 + rng_.Below(3)),
                          static_cast<uint32_t>(1 + rng_.Below(2)));
    job.set_max_restarts(1'000);
    if (rng_.Below(3) == 0) {
      job.set_minimum_nodes(1);
      job.set_maximum_nodes(static_cast<uint32_t>(job.nodes() + rng_.Below(3)));
    }
    auto& scheduling = *job.mutable_scheduling();
    scheduling.set_queue(kNames[rng_.Below(3)]);
    scheduling.set_priority(static_cast<int32_t>(rng_.Below(3)));
    scheduling.set_preemption(kMeans[rng_.Below(4)]);
    if (rng_.Below(3) == 0)
      scheduling.set_expected_ns(std::chrono::nanoseconds(minutes(20)).count());
    if (limited_) scheduling.set_owner("user-" + std::to_string(ids_.size() % 3));
    const Status accepted = cluster_.controller.CheckSubmission(job);
    refused += static_cast<int>(accepted.code() == Code::kPermissionDenied ||
                                accepted.code() == Code::kResourceExhausted);
    if (!accepted.ok()) {
      // The next one is of another user.
      if (limited_) ids_.push_back(id);
      return;
    }
    ids_.push_back(id);
    cluster_.Submit(job);
  }

  void StepAll() {
    for (const std::string& id : ids_) {
      const proto::JobState state = cluster_.StateOf(id);
      if (state == proto::RUNNING || state == proto::LEAVING) cluster_.Step(id);
      preempted += static_cast<int>(cluster_.Job(id).preemptions() > 0);
      ended +=
          static_cast<int>(cluster_.Job(id).reason().find("max_run_time") != std::string::npos);
    }
  }

  // A job to some number of nodes, which the controller may refuse.
  void Scale() {
    if (ids_.empty()) return;
    proto::Change change;
    change.mutable_scale()->set_job_id(ids_[rng_.Below(ids_.size())]);
    change.mutable_scale()->set_nodes(static_cast<uint32_t>(1 + rng_.Below(5)));
    proto::ChangesAsked asked;
    *asked.add_changes() = change;
    if (!cluster_.controller.CheckChanges(asked).ok()) return;
    cluster_.Ask({change});
    ++scaled;
  }

  // Some nodes for a while, for a queue or for nobody; or one less.
  void ReserveOrCancel() {
    const auto present = cluster_.controller.Reservations();
    proto::Change change;
    if (!present.empty() && rng_.Below(3) == 0) {
      change.set_cancel_reservation(present[rng_.Below(present.size())].name());
      return cluster_.Ask({change});
    }
    proto::NodeReservation& reservation = *change.mutable_reserve();
    reservation.set_name("r-" + std::to_string(++names_));
    for (size_t i = rng_.Below(kNodes); i < kNodes; i += 1 + rng_.Below(3)) {
      reservation.add_nodes(Name(i));
    }
    const Instant from = cluster_.now + minutes(rng_.Below(30));
    reservation.set_from_ns(ToNanoseconds(from));
    reservation.set_until_ns(ToNanoseconds(from + minutes(1 + rng_.Below(60))));
    if (rng_.Below(2) == 0) reservation.add_queues(rng_.Below(2) == 0 ? "red" : "blue");
    proto::ChangesAsked asked;
    *asked.add_changes() = change;
    if (!cluster_.controller.CheckChanges(asked).ok()) return;  // another one has a node
    cluster_.Ask({change});
    ++reserved;
  }

  // Nodes on probation that no change names: they come back when jobs wait for them, and whoever
  // goes before may then take what a fix has given.
  std::set<std::string> OnProbation(const std::vector<proto::Change>& changes) const {
    std::set<std::string> nodes;
    for (size_t i = 0; i < kNodes; ++i) {
      if (cluster_.Node(Name(i)).condition() == "suspect") nodes.insert(Name(i));
    }
    for (const proto::Change& change : changes) nodes.erase(change.use_node());
    return nodes;
  }

  // What is said to start a job, done at once, gives it its nodes.
  void Help() {
    const auto id = Any(proto::QUEUED);
    if (!id) return;
    const Controller::Question question = cluster_.controller.AskWhy(JobId(*id));
    if (!question.scheduler.has_value()) return;
    if (question.scheduler->StageOf(JobId(*id)) != scheduler::JobStage::kWaiting) return;
    const auto why = question.scheduler->Explain(JobId(*id), cluster_.now, question.means);
    ASSERT_TRUE(why.ok()) << why.status();
    const Controller::Remedy remedy = cluster_.controller.RemedyOf(JobId(*id), why->fix);
    if (!remedy.missing.empty() || remedy.changes.empty()) return;
    const std::set<std::string> before = OnProbation(remedy.changes);
    cluster_.Ask(remedy.changes);
    if (OnProbation(remedy.changes) != before) return;
    const auto after = cluster_.controller.AskWhy(JobId(*id));
    const auto stage = after.scheduler->StageOf(JobId(*id));
    ASSERT_NE(stage, scheduler::JobStage::kWaiting) << *id << ": " << why->sentence;
    ++helped;
  }

  Random rng_;
  bool limited_;
  int names_ = 0;
  std::string file_;
  Cluster cluster_;
  std::vector<uint64_t> lives_;
  std::vector<std::string> ids_;
};

TEST(ControllerHistory, WithLimitsOfUsersKeepsAllInvariantsAndKnowsEverythingAfterAReplay) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 12);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  int helped = 0, ended = 0, refused = 0;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed, true);
    for (int step = 0; step < 80 && !testing::Test::HasFailure(); ++step) history.Act();
    history.Restart();
    ASSERT_FALSE(testing::Test::HasFailure());
    helped += history.helped;
    ended += history.ended;
    refused += history.refused;
  }
  EXPECT_GT(helped, 0);
  EXPECT_GT(ended, 0);
  EXPECT_GT(refused, 0);
}

TEST(ControllerHistory, KeepsAllInvariantsAndKnowsEverythingAfterAReplay) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 12);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  int helped = 0, restarts = 0, lost = 0, preempted = 0, reserved = 0, scaled = 0;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed, false);
    for (int step = 0; step < 80 && !testing::Test::HasFailure(); ++step) history.Act();
    history.Restart();
    ASSERT_FALSE(testing::Test::HasFailure());
    helped += history.helped;
    restarts += history.restarts;
    lost += history.lost;
    preempted += history.preempted;
    reserved += history.reserved;
    scaled += history.scaled;
  }
  EXPECT_GT(reserved, 0);
  EXPECT_GT(scaled, 0);
  EXPECT_GT(helped, 0);
  EXPECT_GT(restarts, 0);
  EXPECT_GT(lost, 0);
  EXPECT_GT(preempted, 0);
  if (histories >= 100) {
    std::printf("%d fixes applied, %d restarts, %d nodes lost\n", helped, restarts, lost);
  }
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::history_test
