#include "schedule/verify.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"

namespace longhaul::schedule {
namespace {

std::string OfRank(size_t rank) { return "rank " + std::to_string(rank) + ": "; }

// What a rank itself shows: each action once, and after what the rank did before.
class RankCheck {
 public:
  RankCheck(const Schedule& schedule, uint32_t rank, Verdict& verdict)
      : schedule_(schedule), shape_(schedule.shape), rank_(rank), verdict_(verdict) {}

  void Run() {
    uint32_t held = 0;
    uint32_t most = 0;
    for (const Group& group : schedule_.ranks[rank_]) {
      for (const Action& action : group) {
        if (!IsPossible(action)) continue;
        if (!done_.insert(action).second) Find(ToString(action) + " is there twice");
        for (const Action& needed : NeedsOf(action)) {
          if (!done_.contains(needed)) {
            Find(ToString(action) + " comes before " + ToString(needed));
          }
        }
        if (action.kind == Kind::kForward) most = std::max(most, ++held);
        if (action.kind == Kind::kWeights && held > 0) --held;
      }
    }
    verdict_.activations.push_back(most);
    FindMissing();
  }

 private:
  void Find(std::string what) {
    if (verdict_.findings.size() < Verdict::kMostFindings) {
      verdict_.findings.push_back(OfRank(rank_) + std::move(what));
    }
  }

  // Whether the stage has the neighbour that a transfer needs.
  bool IsPossible(const Action& action) {
    if (action.Computes()) return true;
    const bool after = action.kind == Kind::kSendForward || action.kind == Kind::kReceiveBackward;
    const uint32_t stage = shape_.StageOf(rank_, action.chunk);
    if (HasRemoteNeighbour(shape_, stage, after)) return true;
    Find(ToString(action) + ": stage " + std::to_string(stage) + " has no stage " +
         (after ? "after" : "before") + " it on another rank");
    return false;
  }

  // The actions of this rank that must be done before.
  std::vector<Action> NeedsOf(const Action& action) const {
    const uint32_t batch = action.micro_batch;
    const uint32_t chunk = action.chunk;
    const uint32_t stage = shape_.StageOf(rank_, chunk);
    const bool first = stage == 0;
    const bool last = stage + 1 == shape_.stages();
    std::vector<Action> needs;
    // From the stage before or after it, which is on another rank or is another chunk of this one.
    const auto from = [&](bool after, Kind receives, Kind computes) {
      if (HasRemoteNeighbour(shape_, stage, after)) {
        needs.push_back({receives, batch, chunk});
      } else {
        needs.push_back({computes, batch, shape_.ChunkOf(after ? stage + 1 : stage - 1)});
      }
    };
    switch (action.kind) {
      case Kind::kForward:
        if (!first) from(false, Kind::kReceiveForward, Kind::kForward);
        break;
      case Kind::kBackward:
        needs.push_back({Kind::kForward, batch, chunk});
        if (!last) from(true, Kind::kReceiveBackward, Kind::kBackward);
        break;
      case Kind::kWeights:
      case Kind::kSendBackward:
        needs.push_back({Kind::kBackward, batch, chunk});
        break;
      case Kind::kSendForward:
        needs.push_back({Kind::kForward, batch, chunk});
        break;
      case Kind::kReceiveForward:
      case Kind::kReceiveBackward:
        break;
    }
    return needs;
  }

  void FindMissing() {
    for (uint32_t chunk = 0; chunk < shape_.chunks; ++chunk) {
      const uint32_t stage = shape_.StageOf(rank_, chunk);
      std::vector<Kind> kinds = {Kind::kForward, Kind::kBackward, Kind::kWeights};
      if (HasRemoteNeighbour(shape_, stage, true)) {
        kinds.insert(kinds.end(), {Kind::kSendForward, Kind::kReceiveBackward});
      }
      if (HasRemoteNeighbour(shape_, stage, false)) {
        kinds.insert(kinds.end(), {Kind::kSendBackward, Kind::kReceiveForward});
      }
      for (uint32_t batch = 0; batch < shape_.micro_batches; ++batch) {
        for (const Kind kind : kinds) {
          const Action action{kind, batch, chunk};
          if (!done_.contains(action)) Find(ToString(action) + " is missing");
        }
      }
    }
  }

  const Schedule& schedule_;
  const Shape& shape_;
  const uint32_t rank_;
  Verdict& verdict_;
  std::set<Action> done_;
};

// Runs all ranks together as far as they come. A rank waits at a group until all its transfers are
// done. The order in which the ranks are looked at does not matter: a rank that can go on can do so
// later, too.
class Execution {
 public:
  Execution(const Schedule& schedule, uint32_t buffers, Verdict& verdict)
      : schedule_(schedule), buffers_(buffers), verdict_(verdict), at_(schedule.ranks.size()) {}

  void Run() {
    for (uint32_t rank = 0; rank < at_.size(); ++rank) ready_.push_back(rank);
    while (!ready_.empty() && fits_) {
      const uint32_t rank = ready_.front();
      ready_.pop_front();
      Advance(rank);
    }
    if (!fits_) return;
    std::string waits;
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      if (at_[rank].group == schedule_.ranks[rank].size()) continue;
      waits += (waits.empty() ? "" : ", ") + OfRank(rank) + WaitOf(rank);
    }
    if (!waits.empty()) Find("deadlock: " + waits);
  }

 private:
  struct Place {
    size_t group = 0;
    bool posted = false;
    size_t open = 0;  // transfers of the group that are not done
  };
  struct Posted {
    Transfer transfer;
    bool taken = false;  // a send into a buffer, whose rank goes on
  };
  struct Link {
    std::deque<Posted> sends;
    std::deque<Transfer> receives;
  };

  void Find(std::string what) {
    if (verdict_.findings.size() < Verdict::kMostFindings) {
      verdict_.findings.push_back(std::move(what));
    }
  }

  std::string WaitOf(size_t rank) const {
    std::string text;
    for (const Action& action : schedule_.ranks[rank][at_[rank].group]) {
      text += (text.empty() ? "" : " ") + ToString(action);
    }
    return text;
  }

  void Advance(uint32_t rank) {
    const std::vector<Group>& groups = schedule_.ranks[rank];
    Place& place = at_[rank];
    while (place.group < groups.size() && fits_) {
      const Group& group = groups[place.group];
      if (!group.front().Computes() && !place.posted) {
        place.posted = true;
        place.open = group.size();
        for (const Action& action : group) Post(rank, action);
      }
      if (place.open > 0) return;
      ++place.group;
      place.posted = false;
    }
  }

  void Post(uint32_t rank, const Action& action) {
    const Transfer transfer = TransferOf(schedule_.shape, rank, action);
    Link& link = links_[{transfer.from, transfer.to}];
    if (action.Sends()) {
      link.sends.push_back({transfer});
    } else {
      link.receives.push_back(transfer);
    }
    Match(link);
  }

  void Done(uint32_t rank) {
    if (--at_[rank].open == 0) ready_.push_back(rank);
  }

  void Match(Link& link) {
    while (!link.sends.empty() && !link.receives.empty()) {
      const Posted sent = link.sends.front();
      const Transfer received = link.receives.front();
      if (sent.transfer != received) {
        fits_ = false;
        return Find("the transfers from rank " + std::to_string(received.from) + " to rank " +
                    std::to_string(received.to) + " are in another order on the two ranks: " +
                    NameOf(sent.transfer) + " is sent, " + NameOf(received) + " is received");
      }
      link.sends.pop_front();
      link.receives.pop_front();
      if (!sent.taken) Done(received.from);
      Done(received.to);
    }
    for (size_t i = 0; i < std::min<size_t>(buffers_, link.sends.size()); ++i) {
      if (std::exchange(link.sends[i].taken, true)) continue;
      Done(link.sends[i].transfer.from);
    }
  }

  std::string NameOf(const Transfer& transfer) const {
    return (transfer.forward ? "F" : "B") + std::to_string(transfer.micro_batch) + " of stage " +
           std::to_string(transfer.stage);
  }

  const Schedule& schedule_;
  const uint32_t buffers_;
  Verdict& verdict_;
  std::vector<Place> at_;
  std::deque<uint32_t> ready_;
  std::map<std::pair<uint32_t, uint32_t>, Link> links_;
  bool fits_ = true;
};

}  // namespace

Verdict Verify(const Schedule& schedule, const VerifyOptions& options) {
  Verdict verdict;
  const Shape& shape = schedule.shape;
  CHECK(schedule.ranks.size() == shape.ranks);
  const uint64_t computations = uint64_t{3} * shape.stages() * shape.micro_batches;
  uint64_t actions = 0;
  for (const std::vector<Group>& groups : schedule.ranks) {
    for (const Group& group : groups) actions += group.size();
  }
  if (actions < computations) {
    verdict.findings.push_back("there are " + std::to_string(actions) +
                               " actions, expected at least " + std::to_string(computations) +
                               ": F, B and W of each micro-batch and stage");
    return verdict;
  }
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) RankCheck(schedule, rank, verdict).Run();
  for (size_t rank = 0; options.most_activations && rank < shape.ranks; ++rank) {
    const uint32_t held = verdict.activations[rank];
    if (held <= *options.most_activations) continue;
    verdict.findings.push_back(OfRank(rank) + "holds " + std::to_string(held) +
                               " activations at once, the limit is " +
                               std::to_string(*options.most_activations));
  }
  // Only where each rank is right do the transfers have two ends.
  if (verdict.findings.empty()) Execution(schedule, options.buffers, verdict).Run();
  return verdict;
}

}  // namespace longhaul::schedule
