// Candidates of an election with clocks that drift and stop, on a network that loses, delays and
// repeats, with an API server that refuses, and somebody else who changes the Lease.
//
// LONGHAUL_SEEDS sets the number of seeds.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <deque>

#include "base/hash.h"
#include "base/text.h"
#include "engines/kubernetes/double/api_double.h"
#include "engines/kubernetes/leader/election.h"
#include "sim/event_queue.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart = InstantFromNanoseconds(1'769'846'400'000'000'000);
const char* const kLeases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
const char* const kLease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/leader";

// How likely each fault is, for a request or in a second.
struct Faults {
  double lost_request = 0;
  double lost_reply = 0;
  double late = 0;      // executed up to 30 s later, without a reply
  double repeated = 0;  // executed twice, as by libcurl; the second reply counts
  double refused = 0;   // 409, 429, 500, 503
  double garbage = 0;   // a reply that is not the lease
  double stale = 0;     // a GET answered from an old cache
  double cut = 0;       // a candidate from the API server, for up to 30 s
  double paused = 0;    // a process, with its clock running
  double stopped = 0;   // a clock
  double killed = 0;
  double released = 0;
  double changed = 0;  // the Lease, by somebody else
  // Clocks run at a rate of 1 - drift to 1 + drift. With a drift of 0.05 the slowest clock counts
  // 10.2 s while the fastest one counts 15 s, if it also stops for 3.5 s; with 0.19 and no stop,
  // too.
  double drift = 0.05;
  Duration longest_stop = milliseconds(3'500);
  Duration longest_pause = seconds(40);
  Duration latency = milliseconds(5);
};

// What happened, over all seeds.
enum What {
  kLostRequest,
  kLostReply,
  kLate,
  kRepeated,
  kRefused,
  kGarbage,
  kStale,
  kCut,
  kPaused,
  kStopped,
  kKilled,
  kReleased,
  kDeleted,
  kCleared,
  kIntruded,
  kShortened,
  kLabelled,
  kRestored,
  kConflicts,
  kBegins,
  kWhats
};
using Counts = std::array<uint64_t, kWhats>;

// A monotonic clock that runs at a rate of its own, and may stop.
class DriftingClock {
 public:
  DriftingClock(Instant real, Duration offset, double rate)
      : rate_(rate), from_(real), shown_(InstantFromNanoseconds(0) + offset) {}

  Instant Read(Instant real) const {
    const Instant running = std::max(from_, std::min(real, stopped_until_));
    return shown_ + DurationFromSeconds(ToSeconds(real - running) * rate_);
  }
  // When it will show `shown` if it does not stop again.
  Instant RealTime(Instant shown) const {
    return std::max(from_, stopped_until_) +
           DurationFromSeconds(std::max(0.0, ToSeconds(shown - shown_)) / rate_) +
           std::chrono::nanoseconds(2);
  }
  void Stop(Instant real, Duration length) {
    shown_ = Read(real);
    from_ = real;
    stopped_until_ = real + length;
  }
  bool MayStop(Instant real) const { return real - stopped_until_ > seconds(16); }

 private:
  double rate_;
  Instant from_;
  Instant shown_;  // at `from_`
  Instant stopped_until_;
};

struct Candidate {
  size_t index = 0;
  uint64_t process = 0;  // counts the processes; a dead one gets no callbacks
  std::unique_ptr<Election> election;
  DriftingClock clock{kStart, Duration::zero(), 1};
  Duration wall_offset{};
  bool wall_stands = false;
  Instant paused_until;
  Instant cut_until;
  uint64_t request = 0;  // the one in progress
  uint64_t wake = 0;     // the last wake-up that was scheduled
  uint64_t terms = 0;
  bool ending = false;  // it releases the lease
};

class World {
 public:
  World(uint64_t seed, size_t candidates, const Faults& faults)
      : random_(seed), faults_(faults), queue_(kStart), candidates_(candidates) {
    for (size_t i = 0; i < candidates; ++i) {
      Candidate& candidate = candidates_[i];
      candidate.index = i;
      // The limits are more likely than what lies between.
      const double drift = Chance(0.7) ? (Chance(0.5) ? 1 : -1) : 2 * random_.Uniform() - 1;
      candidate.clock = DriftingClock(kStart, Seconds(1e6), 1 + faults.drift * drift);
      candidate.wall_offset = Seconds(4e5) - std::chrono::hours(48);
      candidate.wall_stands = Chance(0.3);
      Begin(candidate);
    }
    Tick();
  }

  // Runs until `length` later. Checks after each event that at most one candidate leads: only an
  // event makes a candidate lead.
  void Run(Duration length) {
    const Instant end = queue_.now() + length;
    while (queue_.RunNext(end)) {
      Check();
      if (!failure_.empty()) return;
    }
  }

  // From now on nothing fails, and all candidates run.
  void EndFaults() {
    faults_ = Faults();
    for (Candidate& candidate : candidates_) {
      candidate.paused_until = queue_.now();
      candidate.cut_until = queue_.now();
      candidate.clock.Stop(queue_.now(), Duration::zero());
      if (!candidate.election || candidate.ending) Begin(candidate);
    }
  }
  void Release(size_t index) {
    Candidate& candidate = candidates_[index];
    candidate.election->Release(Clock(candidate));
    Pump(candidate);
  }

  std::optional<size_t> leader() const {
    for (const Candidate& candidate : candidates_) {
      if (Leads(candidate)) return candidate.index;
    }
    return std::nullopt;
  }
  const std::string& failure() const { return failure_; }
  const Counts& counts() const { return counts_; }
  uint64_t hash() const { return hash_; }
  uint64_t terms() const { return counts_[kBegins]; }
  const Json* lease() const { return server_.Find("leases", {"ns", "leader"}); }

 private:
  bool Chance(double probability) { return random_.Uniform() < probability; }
  bool Happens(double probability, What what) {
    if (!Chance(probability)) return false;
    ++counts_[what];
    return true;
  }
  Duration Seconds(double longest) { return DurationFromSeconds(longest * random_.Uniform()); }
  Duration Latency() { return milliseconds(1) + Seconds(2 * ToSeconds(faults_.latency)); }
  Instant Clock(const Candidate& candidate) const { return candidate.clock.Read(queue_.now()); }
  bool Leads(const Candidate& candidate) const {
    return candidate.election && candidate.election->leads(Clock(candidate));
  }
  void Mix(uint64_t value) {
    uint64_t state = hash_ ^ value;
    hash_ = SplitMix64(state);
  }

  void Begin(Candidate& candidate) {
    ElectionSettings settings;
    settings.lease_name = "leader";
    settings.identity = "c" + std::to_string(candidate.index) + "-" + std::to_string(++processes_);
    candidate.process = processes_;
    candidate.terms = 0;
    candidate.request = 0;
    candidate.ending = false;
    candidate.election = std::make_unique<Election>(settings, random_.Next());
    queue_.After(Seconds(3), [this, &candidate, process = processes_] {
      if (candidate.process == process) Pump(candidate);
    });
  }
  void Kill(Candidate& candidate) {
    candidate.election.reset();
    candidate.process = 0;
    queue_.After(Seconds(20), [this, &candidate] {
      if (!candidate.election) Begin(candidate);
    });
  }

  // Calls back in the process of the candidate, once it runs.
  void Deliver(Candidate& candidate, uint64_t process, std::function<void()> what) {
    if (candidate.process != process) return;
    if (candidate.paused_until <= queue_.now()) return what();
    // In steps, because a pause may be ended earlier.
    queue_.At(std::min(candidate.paused_until, queue_.now() + milliseconds(100)),
              [this, &candidate, process, what] { Deliver(candidate, process, what); });
  }

  void Pump(Candidate& candidate) {
    const uint64_t process = candidate.process;
    const Instant wall = candidate.wall_stands ? kStart + candidate.wall_offset
                                               : queue_.now() + candidate.wall_offset;
    const Election::Action action = candidate.election->Next(Clock(candidate), wall);
    switch (action.kind) {
      case Election::Kind::kBusy:
        return;
      case Election::Kind::kEnded:
        return Kill(candidate);
      case Election::Kind::kWait: {
        const uint64_t wake = ++candidate.wake;
        queue_.At(candidate.clock.RealTime(action.at), [this, &candidate, process, wake] {
          Deliver(candidate, process, [this, &candidate, wake] {
            if (candidate.wake == wake) Pump(candidate);
          });
        });
        return;
      }
      case Election::Kind::kGet:
      case Election::Kind::kCreate:
      case Election::Kind::kPatch:
        return Send(candidate, action);
    }
  }

  void Send(Candidate& candidate, const Election::Action& action) {
    const uint64_t process = candidate.process;
    const uint64_t id = ++requests_;
    candidate.request = id;
    ApiRequest request;
    request.body = action.body;
    request.path = action.kind == Election::Kind::kCreate ? kLeases : kLease;
    request.method = action.kind == Election::Kind::kGet      ? "GET"
                     : action.kind == Election::Kind::kCreate ? "POST"
                                                              : "PATCH";
    request.content_type = "application/merge-patch+json";
    const auto reply = [this, &candidate, process, id](int status, const std::string& body) {
      Deliver(candidate, process,
              [this, &candidate, id, status, body] { OnReply(candidate, id, status, body); });
    };
    queue_.At(candidate.clock.RealTime(Clock(candidate) + seconds(3)), [reply] { reply(0, ""); });
    if (queue_.now() < candidate.cut_until || Happens(faults_.lost_request, kLostRequest)) return;
    if (Happens(faults_.late, kLate)) {
      // Nothing is late any more when the faults have ended.
      queue_.After(Seconds(30), [this, request] {
        if (faults_.late > 0) (void)server_.Handle(request);
      });
      return;
    }
    queue_.After(Latency(), [this, request, reply] {
      const auto [status, body] = Execute(request);
      if (Happens(faults_.lost_reply, kLostReply)) return;
      queue_.After(Latency(), [reply, status = status, body = body] { reply(status, body); });
    });
  }

  std::pair<int, std::string> Execute(const ApiRequest& request) {
    if (Happens(faults_.refused, kRefused)) {
      constexpr std::array<int, 4> kStatuses = {409, 429, 500, 503};
      return {kStatuses[random_.Below(kStatuses.size())], ""};
    }
    if (Happens(faults_.repeated, kRepeated)) (void)server_.Handle(request);
    const ApiResponse response = server_.Handle(request);
    std::string body = response.body;
    if (Happens(faults_.garbage, kGarbage)) {
      body = Chance(0.5) ? "<html>" : body.substr(0, random_.Below(body.size()));
    }
    if (request.method != "GET" || response.status != 200) return {response.status, body};
    seen_.push_back(response.body);
    if (seen_.size() > 8) seen_.pop_front();
    if (Happens(faults_.stale, kStale)) body = seen_[random_.Below(seen_.size())];
    return {response.status, body};
  }

  void OnReply(Candidate& candidate, uint64_t id, int status, const std::string& body) {
    if (candidate.request != id) return;  // it has had a reply, or its limit
    candidate.request = 0;
    const Call call = *GetCall(Leases(), {"ns", "leader"});
    Verdict verdict = Unreachable(call, Unavailable("lost"));
    if (status != 0) {
      ApiStatus details;
      if (status == 409 && body.find("AlreadyExists") != body.npos) {
        details.reason = "AlreadyExists";
      }
      verdict = Judge(call, status, "", details);
    }
    counts_[kConflicts] += verdict.outcome == Outcome::kConflict ? 1 : 0;
    (void)candidate.election->OnReply(verdict, body, Clock(candidate));
    Mix(candidate.process);
    Mix(static_cast<uint64_t>(status));
    Mix(static_cast<uint64_t>(ToNanoseconds(queue_.now())));
    Pump(candidate);
  }

  // What happens to processes, clocks and the Lease, four times a second.
  void Tick() {
    for (Candidate& candidate : candidates_) {
      if (!candidate.election) continue;
      if (Happens(faults_.cut / 4, kCut)) candidate.cut_until = queue_.now() + Seconds(30);
      if (Happens(faults_.paused / 4, kPaused)) {
        candidate.paused_until = queue_.now() + Seconds(ToSeconds(faults_.longest_pause));
      }
      if (candidate.clock.MayStop(queue_.now()) && Happens(faults_.stopped / 4, kStopped)) {
        const Duration length =
            Chance(0.5) ? faults_.longest_stop : Seconds(ToSeconds(faults_.longest_stop));
        candidate.clock.Stop(queue_.now(), length);
        // A suspended machine, or only its clock.
        if (Chance(0.5)) candidate.paused_until = queue_.now() + length;
      }
      if (Chance(0.05)) candidate.wall_offset = Seconds(4e5) - std::chrono::hours(48);
      if (Happens(faults_.released / 4, kReleased)) {
        candidate.election->Release(Clock(candidate));
        candidate.ending = true;
      } else if (Happens(faults_.killed / 4, kKilled)) {
        Kill(candidate);
      }
    }
    if (Chance(faults_.changed / 4)) Change();
    queue_.After(milliseconds(250), [this] { Tick(); });
  }

  void Patch(const Json& spec, What what) {
    ++counts_[what];
    ApiRequest request{"PATCH", kLease, {}, "application/merge-patch+json", ""};
    request.body = Json{{"spec", spec}}.dump();
    (void)server_.Handle(request);
  }

  // Somebody else changes the Lease, but never into a released one.
  void Change() {
    const Json* const lease = server_.Find("leases", {"ns", "leader"});
    if (lease == nullptr) return;
    const Json spec = lease->value("spec", Json::object());
    switch (random_.Below(6)) {
      case 0: {
        ++counts_[kDeleted];
        server_.Remove("leases", {"ns", "leader"});
        return;
      }
      case 1:
        return Patch({{"holderIdentity", ""}, {"leaseDurationSeconds", 15}}, kCleared);
      case 2:
        return Patch({{"holderIdentity", "intruder"}, {"leaseDurationSeconds", 20}}, kIntruded);
      case 3:
        if (spec.value("holderIdentity", "").empty()) return;
        return Patch({{"leaseDurationSeconds", Chance(0.5) ? Json(1) : Json()},
                      {"leaseTransitions", Chance(0.5) ? Json(2147483647) : Json()}},
                     kShortened);
      case 4: {
        ++counts_[kLabelled];
        ApiRequest request{"PATCH", kLease, {}, "application/merge-patch+json", ""};
        request.body = Json{{"metadata", {{"labels", {{"a", std::to_string(++labels_)}}}}}}.dump();
        (void)server_.Handle(request);
        return;
      }
      default: {
        // From a backup: as it once was, with another uid.
        if (!spec.value("holderIdentity", "").empty()) backups_.push_back(spec);
        if (backups_.empty()) return;
        ++counts_[kRestored];
        server_.Remove("leases", {"ns", "leader"});
        ApiRequest request{"POST", kLeases, {}, "application/json", ""};
        request.body = Json{{"metadata", {{"name", "leader"}}},
                            {"spec", backups_[random_.Below(backups_.size())]}}
                           .dump();
        (void)server_.Handle(request);
      }
    }
  }

  void Check() {
    std::string leaders;
    int leading = 0;
    for (Candidate& candidate : candidates_) {
      if (candidate.election && candidate.election->terms() != candidate.terms) {
        candidate.terms = candidate.election->terms();
        ++counts_[kBegins];
      }
      if (!Leads(candidate)) continue;
      ++leading;
      leaders += " c" + std::to_string(candidate.index);
      Mix(candidate.process);
    }
    if (leading > 1) {
      failure_ = "after " + longhaul::ToString(queue_.now() - kStart) + " these lead:" + leaders;
    }
  }

  Random random_;
  Faults faults_;
  sim::EventQueue queue_;
  ApiDouble server_;
  std::vector<Candidate> candidates_;
  std::deque<std::string> seen_;  // bodies of the last GETs
  std::vector<Json> backups_;
  uint64_t processes_ = 0;
  uint64_t requests_ = 0;
  uint64_t labels_ = 0;
  Counts counts_{};
  uint64_t hash_ = 0;
  std::string failure_;
};

uint64_t Seeds() {
  const char* const wanted = std::getenv("LONGHAUL_SEEDS");
  const Result<uint64_t> seeds = ParseUint64(wanted != nullptr ? wanted : "");
  if (seeds.ok()) return *seeds;
#ifdef __SANITIZE_ADDRESS__
  return 100;  // twenty times slower
#else
  return 1'000;
#endif
}

Faults RandomFaults(uint64_t seed) {
  Random random(seed ^ 0x5eed);
  // Some seeds have only a few kinds, so that each is seen by itself and with the others.
  const auto draw = [&random](double most) {
    return random.Below(2) == 0 ? 0 : most * random.Uniform();
  };
  Faults faults;
  faults.lost_request = draw(0.3);
  faults.lost_reply = draw(0.3);
  faults.late = draw(0.3);
  faults.repeated = draw(0.3);
  faults.refused = draw(0.3);
  faults.garbage = draw(0.1);
  faults.stale = draw(0.5);
  faults.cut = draw(0.1);
  faults.paused = draw(0.05);
  faults.stopped = draw(0.2);
  faults.killed = draw(0.05);
  faults.released = draw(0.05);
  faults.changed = draw(1);
  if (faults.stopped == 0) faults.drift = 0.19;
  faults.latency = milliseconds(1 + static_cast<int>(random.Below(1'200)));
  return faults;
}

// The longest time without a leader after the faults: a request in progress or a process that
// starts (3 s), an attempt (2.4 s), the longest duration that somebody has written (20 s) and an
// attempt, on the slowest clock, and the round trips.
Duration LongestWait(const Faults& faults) {
  return DurationFromSeconds((3 + 2.4 + 20 + 2.4) / (1 - faults.drift) + 0.2);
}
// After a release: an attempt.
Duration LongestHandover(const Faults& faults) {
  return DurationFromSeconds(2.4 / (1 - faults.drift) + 0.2);
}

// Runs a seed and returns what was wrong with it.
std::string RunSeed(uint64_t seed, Counts* counts, uint64_t* hash) {
  const Faults faults = RandomFaults(seed);
  World world(seed, 2 + seed % 4, faults);
  world.Run(seconds(100));
  if (!world.failure().empty()) return world.failure();
  world.EndFaults();
  world.Run(LongestWait(faults));
  if (!world.failure().empty()) return world.failure() + " without faults";
  const std::optional<size_t> leader = world.leader();
  if (!leader) return "nobody leads when the faults have ended long ago";
  const uint64_t terms = world.terms();
  world.Run(seconds(20));
  if (world.leader() != leader || world.terms() != terms)
    return "the leader changes without a fault";
  world.Release(*leader);
  if (world.leader()) return "it leads after its release";
  world.Run(LongestHandover(faults));
  if (!world.leader()) return "nobody has taken the released lease";
  for (size_t i = 0; i < counts->size(); ++i) (*counts)[i] += world.counts()[i];
  *hash = world.hash();
  return world.failure();
}

TEST(ElectionSim, NeverHasTwoLeadersAndHasOneSoonAfterTheFaults) {
  Counts counts{};
  uint64_t hash = 0;
  const uint64_t seeds = Seeds();
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    ASSERT_EQ(RunSeed(seed, &counts, &hash), "") << "seed " << seed;
  }
  // The faults did happen, each of them, and leaders did change.
  for (size_t what = 0; what < counts.size(); ++what) {
    EXPECT_GT(counts[what], seeds / 10) << "fault " << what;
  }
  EXPECT_GT(counts[kBegins], 2 * seeds);
}

TEST(ElectionSim, IsAFunctionOfItsSeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Counts first{};
    Counts second{};
    std::array<uint64_t, 2> hashes{};
    EXPECT_EQ(RunSeed(seed, &first, &hashes[0]), RunSeed(seed, &second, &hashes[1]));
    EXPECT_EQ(first, second) << seed;
    EXPECT_EQ(hashes[0], hashes[1]) << seed;
  }
}

// The seeds of `seeds` in which two lead.
int SeedsWithTwoLeaders(const Faults& faults, uint64_t seeds) {
  int found = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    World world(seed, 3, faults);
    world.Run(seconds(200));
    found += world.failure().empty() ? 0 : 1;
  }
  return found;
}

// The limit that the header states: a clock that stands for longer than the difference between
// duration and deadline makes two leaders, and a pause of the process alone never does.
TEST(ElectionSim, HasTwoLeadersOnlyWhenAClockStopsForTooLong) {
  Faults faults;
  faults.stopped = 0.05;
  faults.longest_stop = seconds(40);
  EXPECT_GT(SeedsWithTwoLeaders(faults, 50), 5);
  faults.stopped = 0;
  faults.paused = 0.05;
  EXPECT_EQ(SeedsWithTwoLeaders(faults, 50), 0);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
