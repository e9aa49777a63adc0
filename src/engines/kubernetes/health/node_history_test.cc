// Random histories with faults: each write of the program keeps the rules, and at rest the nodes
// agree with the evidence.
//
// LONGHAUL_HISTORIES is the number of seeds, LONGHAUL_HISTORY_SEED the first one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/random.h"
#include "engines/kubernetes/health/node_health.h"
#include "engines/kubernetes/health/simulated_nodes.h"
#include "engines/kubernetes/jobs/simulation/simulated_watch.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kNodes = 6;
constexpr Duration kChangesEnd = minutes(60);

uint64_t NumberFrom(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

struct Counts {
  int cordons = 0, uncordons = 0, lost = 0, conflicts = 0, restarts = 0, breaks = 0, users = 0;
};

// One instance of the program, with its watches.
class Instance {
 public:
  Instance(SimulatedAgenda& agenda, SimulatedNodes& nodes, Random& rng,
           const NodeHealthSettings& settings, Counts& counts, const bool& faulty)
      : agenda_(agenda),
        nodes_(nodes),
        rng_(rng),
        counts_(counts),
        faulty_(faulty),
        health_(settings),
        watch_nodes_(agenda, nodes.api(), rng, Nodes(), "", EventsFor([this](const Change& change) {
                       if (change.kind == ChangeKind::kDeleted) {
                         return health_.OnNodeGone(change.meta.name);
                       }
                       EXPECT_TRUE(health_.OnNode(JobJson::parse(change.object.text)).ok());
                     })),
        watch_pods_(agenda, nodes.api(), rng, Pods(), "fieldSelector=spec.nodeName%21%3D",
                    EventsFor([this](const Change& change) {
                      if (change.kind == ChangeKind::kDeleted) {
                        return health_.OnPodGone(change.meta.Key());
                      }
                      health_.OnPod(change.meta.Key(), JobJson::parse(change.object.text));
                    })) {}

  void Pump() {
    watch_nodes_.Pump();
    watch_pods_.Pump();
    Advance();
  }

 private:
  SimulatedWatch::Events EventsFor(std::function<void(const Change&)> take) {
    return {std::move(take), [this] { Advance(); },
            [this] {
              const bool breaks = faulty_ && rng_.Below(100) == 0;
              counts_.breaks += breaks ? 1 : 0;
              return breaks;
            }};
  }

  void Advance() {
    if (!watch_nodes_.synced() || !watch_pods_.synced()) return;
    for (NodeAction& action : health_.Advance(agenda_.now(), agenda_.now())) {
      Send(std::move(action));
    }
  }

  // The request arrives late or never, also after the end of this instance. So does the reply.
  void Send(NodeAction action) {
    const Result<Call> call = CallFor(action);
    ASSERT_TRUE(call.ok()) << call.status();
    const bool lost = faulty_ && rng_.Below(10) == 0;
    const bool lost_reply = faulty_ && rng_.Below(10) == 0;
    counts_.lost += lost || lost_reply ? 1 : 0;
    agenda_.After(SimulatedDelay(rng_), [this, &nodes = nodes_, &agenda = agenda_, &rng = rng_,
                                         alive = std::weak_ptr<const bool>(alive_), call = *call,
                                         action = std::move(action), lost, lost_reply] {
      PatchResult result = PatchResult::kUnknown;
      if (!lost) {
        const int status = nodes.Serve(call).status;
        result = status == 409  ? PatchResult::kConflict
                 : status < 300 ? PatchResult::kDone
                                : PatchResult::kRefused;
      }
      if (lost_reply) result = PatchResult::kUnknown;
      agenda.After(SimulatedDelay(rng), [this, alive, action, result] {
        if (alive.expired()) return;
        counts_.conflicts += result == PatchResult::kConflict ? 1 : 0;
        health_.OnReply(action, result, agenda_.now());
        Advance();
      });
    });
  }

  SimulatedAgenda& agenda_;
  SimulatedNodes& nodes_;
  Random& rng_;
  Counts& counts_;
  const bool& faulty_;
  NodeHealth health_;
  SimulatedWatch watch_nodes_;
  SimulatedWatch watch_pods_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

class History {
 public:
  explicit History(uint64_t seed) : rng_(seed), nodes_(kNodes, LimitOf(seed)) {
    settings_.most_cordoned = LimitOf(seed);
    if (seed % 2 == 0) settings_.taint = seed % 4 == 0 ? "NoExecute" : "NoSchedule";
  }

  Counts Run() {
    Start();
    const Instant begin = agenda_.now();
    Tick(begin + kChangesEnd + minutes(20));
    ScheduleChange(begin + kChangesEnd);
    while (agenda_.Step(begin + kChangesEnd)) {
      if (!nodes_.violations().empty()) break;
    }
    faulty_ = false;
    while (agenda_.Step(begin + kChangesEnd + minutes(20))) {
    }
    EXPECT_EQ(nodes_.violations(), "");
    EXPECT_EQ(nodes_.AtRest(), "");
    counts_.cordons = nodes_.cordons();
    counts_.uncordons = nodes_.uncordons();
    return counts_;
  }

 private:
  static NodeLimit LimitOf(uint64_t seed) { return {1 + static_cast<uint32_t>(seed % 4), false}; }

  void Start() {
    instance_ = std::make_unique<Instance>(agenda_, nodes_, rng_, settings_, counts_, faulty_);
    instance_->Pump();
  }
  void Tick(Instant end) {
    if (agenda_.now() > end) return;
    instance_->Pump();
    agenda_.After(seconds(1), [this, end] { Tick(end); });
  }
  void ScheduleChange(Instant end) {
    agenda_.After(seconds(1 + static_cast<int64_t>(rng_.Below(60))), [this, end] {
      if (agenda_.now() >= end) return;
      Change();
      ScheduleChange(end);
    });
  }

  void Change() {
    const std::string node = "n" + std::to_string(rng_.Below(kNodes));
    const std::string pod = "p" + node.substr(1);
    switch (rng_.Below(14)) {
      case 0:
      case 1:
      case 2:
        return nodes_.SetCondition(node, rng_.Below(2) == 0 ? "KernelDeadlock" : "XfsShutdown",
                                   rng_.Below(3) == 0);
      case 3:
      case 4:
        return nodes_.SetDevice(pod, node, rng_.Below(2) == 0 ? "Unhealthy" : "Healthy");
      case 5:
      case 11:
      case 12:
        return nodes_.RemovePod(pod);
      case 6:
      case 7:
        ++counts_.users;
        return nodes_.UserCordons(node, !nodes_.IsCordoned(node));
      case 8:  // twice within a moment
        ++counts_.users;
        nodes_.UserCordons(node, !nodes_.IsCordoned(node));
        return nodes_.UserCordons(node, !nodes_.IsCordoned(node));
      case 9:
        return nodes_.UserTaints(node, "t" + std::to_string(rng_.Next() % 1'000'000));
      case 10:
        return nodes_.Touch(node);
      default:
        ++counts_.restarts;
        if (rng_.Below(4) == 0) nodes_.api().Compact();
        return Start();
    }
  }

  Random rng_;
  SimulatedAgenda agenda_;
  SimulatedNodes nodes_;
  NodeHealthSettings settings_;
  Counts counts_;
  bool faulty_ = true;
  std::unique_ptr<Instance> instance_;
};

TEST(NodeHistory, KeepsTheRulesWithFaultsAndFollowsTheEvidenceAtRest) {
  const uint64_t histories = NumberFrom("LONGHAUL_HISTORIES", 20);
  const uint64_t first = NumberFrom("LONGHAUL_HISTORY_SEED", 1);
  Counts all;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    const Counts counts = History(seed).Run();
    all.cordons += counts.cordons;
    all.uncordons += counts.uncordons;
    all.lost += counts.lost;
    all.conflicts += counts.conflicts;
    all.restarts += counts.restarts;
    all.breaks += counts.breaks;
    all.users += counts.users;
    if (HasFailure()) return;
  }
  if (histories < 10) return;
  // What the test is about has happened.
  EXPECT_GT(all.cordons, 0);
  EXPECT_GT(all.uncordons, 0);
  EXPECT_GT(all.lost, 0);
  EXPECT_GT(all.conflicts, 0);
  EXPECT_GT(all.restarts, 0);
  EXPECT_GT(all.breaks, 0);
  EXPECT_GT(all.users, 0);
  printf("%d cordons, %d uncordons, %d lost, %d conflicts, %d restarts, %d breaks, %d users\n",
         all.cordons, all.uncordons, all.lost, all.conflicts, all.restarts, all.breaks, all.users);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
