// What the interruptions of a replay cost, seen from the training job: independent of the
// controller's ledger, so that the sums can be compared.
//
// An interruption costs the time from the last new step before it to the first new step of a later
// attempt, less the time of the new steps in between. Where a second failure strikes in that time,
// the first one is charged until then.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace longhaul::runtime::simulation {

struct CauseCost {
  uint64_t count = 0;
  Duration lost{};
};

class ReplayRecord {
 public:
  // `step`: how long a step takes without failures.
  explicit ReplayRecord(Duration step) : step_(step) {}

  // A failure strikes.
  void Struck(Instant at, const std::string& cause);
  // The attempt's newest step is `last`.
  void Stepped(Instant at, uint64_t attempt, uint64_t last);
  // The steps up to `last` took this much longer because of a slow device.
  void Slowed(uint64_t last, Duration excess) { slow_.emplace_back(last, excess); }
  // An attempt begins with the state after `step`; later ones are done again.
  void RolledBack(uint64_t step);
  // Work of this length is repeated by hand, outside the controller's view.
  void RedoneByHand(const std::string& cause, Duration work);
  void End(Instant at);

  const std::map<std::string, CauseCost>& costs() const { return costs_; }
  Duration slow_excess() const;  // of the steps that count
  Duration redone_by_hand() const { return redone_; }

 private:
  struct Open {
    std::string cause;
    Instant since{};
    uint64_t highest = 0;
    uint64_t attempt = 0;
  };
  // Charges the open interruption up to `at`.
  void Charge(Instant at);

  Duration step_;
  std::map<std::string, CauseCost> costs_;
  std::optional<Open> open_;
  std::optional<Instant> last_new_;  // when the highest step was taken
  uint64_t highest_ = 0;
  uint64_t attempt_ = 0;
  std::vector<std::pair<uint64_t, Duration>> slow_;
  Duration redone_{};
};

}  // namespace longhaul::runtime::simulation
