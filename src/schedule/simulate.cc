#include "schedule/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "base/check.h"

namespace longhaul::schedule {
namespace {

class Simulation {
 public:
  Simulation(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule), durations_(durations), places_(schedule.ranks.size()) {
    timeline_.ranks.resize(schedule.ranks.size());
  }

  Timeline Run() {
    for (uint32_t rank = 0; rank < places_.size(); ++rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const uint32_t rank = ready_.front();
      ready_.pop_front();
      Advance(rank);
    }
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      CHECK(places_[rank].group == schedule_.ranks[rank].size());
      timeline_.makespan = std::max(timeline_.makespan, places_[rank].now);
    }
    return std::move(timeline_);
  }

 private:
  struct Place {
    size_t group = 0;
    bool sent = false;
    double now = 0;
  };

  void Advance(uint32_t rank) {
    const std::vector<Group>& groups = schedule_.ranks[rank];
    Place& place = places_[rank];
    for (; place.group < groups.size(); ++place.group, place.sent = false) {
      const Group& group = groups[place.group];
      if (group.front().Computes()) {
        Compute(rank, group.front());
        continue;
      }
      if (!place.sent) Send(rank, group);
      place.sent = true;
      const std::optional<double> arrived = ArrivalOf(rank, group);
      if (!arrived.has_value()) return;
      place.now = std::max(place.now, *arrived);
    }
  }

  void Compute(uint32_t rank, const Action& action) {
    double& now = places_[rank].now;
    const double begin = now;
    now += durations_.Of(action.kind, schedule_.shape.StageOf(rank, action.chunk));
    timeline_.ranks[rank].push_back({action, begin, now});
  }

  void Send(uint32_t rank, const Group& group) {
    for (const Action& action : group) {
      if (!action.Sends()) continue;
      const Transfer transfer = TransferOf(schedule_.shape, rank, action);
      arrivals_[transfer] = places_[rank].now + durations_.transfer;
      const auto waiting = waits_.find(transfer);
      if (waiting == waits_.end()) continue;
      ready_.push_back(waiting->second);
      waits_.erase(waiting);
    }
  }

  // Nothing: a message is not sent yet, and then the rank is ready again.
  std::optional<double> ArrivalOf(uint32_t rank, const Group& group) {
    double last = 0;
    for (const Action& action : group) {
      if (action.Sends()) continue;
      const Transfer transfer = TransferOf(schedule_.shape, rank, action);
      const auto found = arrivals_.find(transfer);
      if (found == arrivals_.end()) {
        waits_[transfer] = rank;
        return std::nullopt;
      }
      last = std::max(last, found->second);
    }
    return last;
  }

  const Schedule& schedule_;
  const Durations& durations_;
  std::vector<Place> places_;
  std::deque<uint32_t> ready_;
  std::map<Transfer, double> arrivals_;
  std::map<Transfer, uint32_t> waits_;
  Timeline timeline_;
};

double BusyTime(const std::vector<Timed>& computations) {
  double busy = 0;
  for (const Timed& each : computations) busy += each.end - each.begin;
  return busy;
}

}  // namespace

double Durations::Of(Kind kind, uint32_t stage) const {
  const std::vector<double>& all = kind == Kind::kForward    ? forward
                                   : kind == Kind::kBackward ? backward
                                                             : weights;
  return all[all.size() == 1 ? 0 : stage];
}

double Timeline::LargestIdleShare() const {
  double largest = 0;
  for (const std::vector<Timed>& computations : ranks) {
    if (computations.empty()) continue;
    const double span = computations.back().end - computations.front().begin;
    if (span > 0) largest = std::max(largest, 1 - BusyTime(computations) / span);
  }
  return largest;
}

double Timeline::BubbleShare() const {
  double busy = 0;
  for (const std::vector<Timed>& computations : ranks) busy += BusyTime(computations);
  return makespan > 0 ? 1 - busy / (makespan * static_cast<double>(ranks.size())) : 0;
}

Timeline Simulate(const Schedule& schedule, const Durations& durations) {
  CHECK(schedule.ranks.size() == schedule.shape.ranks);
  return Simulation(schedule, durations).Run();
}

}  // namespace longhaul::schedule
